"""A garden whose plants want water: a planner, a world, a language model and a task suite of another distribution."""
