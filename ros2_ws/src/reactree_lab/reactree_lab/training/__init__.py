"""A small language model of your own, trained on a dataset of decisions; only this package imports torch."""
