"""The world of a robot: its own servers, topics and map."""
