"""Worlds that are given in PDDL: Blocksworld, Gripper, Tyreworld and Barman, and whatever a person has as files."""
