"""A garden whose plants want water: a planner, a world, a language model, a memory and a task suite of another one."""
