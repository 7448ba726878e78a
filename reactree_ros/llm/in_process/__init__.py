"""Texts that are generated in this process: what holds them, what is kept of them, one by one or several at once."""
