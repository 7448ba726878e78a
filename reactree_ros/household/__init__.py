"""VirtualHome's households: on their scene graphs, and in the Unity simulator."""
