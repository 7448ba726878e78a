"""ReCode (Yu et al.): its planner, blocks of code and the sandbox they run in."""
