"""What one compares with and learns from: other worlds and planners, the bench, datasets, training."""
