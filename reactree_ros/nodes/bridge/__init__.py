"""A bridge: a world behind an action and services."""
