"""Made-up houses, their tasks in many words, and people who answer about them."""
