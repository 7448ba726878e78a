"""ReCode (Yu et al.): its planner, blocks of code, and their sandbox."""
