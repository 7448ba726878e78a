"""Batched generation with a Hugging Face model: one forward pass per token for all texts."""
