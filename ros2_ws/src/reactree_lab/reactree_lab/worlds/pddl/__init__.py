"""Worlds in PDDL: Blocksworld, Gripper, Tyreworld and Barman, and your own files."""
