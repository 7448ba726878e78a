"""The VirtualHome part of the Embodied Agent Interface (Li et al., NeurIPS 2024), as a world and a suite."""
