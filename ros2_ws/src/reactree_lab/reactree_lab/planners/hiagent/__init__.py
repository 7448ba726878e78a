"""HiAgent (Hu et al.): its planner, chunks, examples and prompts."""
