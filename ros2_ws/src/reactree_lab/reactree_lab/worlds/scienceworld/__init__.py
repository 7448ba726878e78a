"""ScienceWorld (Wang et al., 2022): experiments of primary school in words, with its own simulator, in Java."""
