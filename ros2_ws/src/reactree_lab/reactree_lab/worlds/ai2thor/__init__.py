"""AI2-THOR's rooms, and ALFRED's trials in them."""
