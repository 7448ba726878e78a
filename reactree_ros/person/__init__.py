"""A person who is asked, and who says something in the middle of a run."""
