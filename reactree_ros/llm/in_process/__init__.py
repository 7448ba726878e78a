"""Generates texts in this process, token by token, one after the other."""
