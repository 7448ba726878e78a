"""How agent nodes live in a behaviour tree: the node, its control flow, its skill, and how the tree grows."""
