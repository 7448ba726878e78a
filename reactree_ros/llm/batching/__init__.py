"""Texts that a Hugging Face model generates together: one forward pass a token for all of them."""
