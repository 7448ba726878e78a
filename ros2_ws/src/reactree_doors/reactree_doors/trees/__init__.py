"""Routines as trees that people change: XML of BehaviorTree.CPP 4, and Python of py_trees."""
