"""The person: answers questions, and speaks up during a run."""
