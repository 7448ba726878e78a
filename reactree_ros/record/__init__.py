"""Runs as they are written down: recordings read, replayed and compared, runs saved."""
