"""SmolLM2-135M with the package's own adapter: a model that knows words, and was trained for the planner."""
