"""Routines: what a tree did once, kept as a tree that needs no language model, with roles in place of things."""
