"""Comparison and learning: other worlds and planners, the bench, datasets, training."""
