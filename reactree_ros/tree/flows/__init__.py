"""The control flows that an expansion can use, each in a file of its own."""
