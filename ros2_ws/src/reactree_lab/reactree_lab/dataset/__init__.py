"""Datasets of decisions, from records of runs or from generated houses, for training a language model."""
