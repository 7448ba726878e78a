"""Files read back within bounds, and written whole and without keys."""
