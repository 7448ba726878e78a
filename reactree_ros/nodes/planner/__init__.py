"""The planner node: tasks, their trees, and the ports over ROS."""
