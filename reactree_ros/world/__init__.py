"""Worlds behind one port: simulators, and what they are made of."""
