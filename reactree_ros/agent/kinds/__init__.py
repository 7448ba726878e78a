"""The kinds of decision: each is declared in one file, of this package or of a plug-in."""
