"""Other worlds than the household."""
