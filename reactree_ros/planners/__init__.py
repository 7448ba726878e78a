"""Planners: each builds a behaviour tree from an instruction, on the same two ports."""
