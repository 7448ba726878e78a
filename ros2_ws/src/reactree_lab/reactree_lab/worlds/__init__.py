"""Worlds other than the household."""
