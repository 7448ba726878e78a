"""Household instructions carried out by a behaviour tree of LLM agent nodes that grows while it runs."""

__version__ = "0.1.0"
