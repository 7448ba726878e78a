"""ScienceWorld (Wang et al., 2022): experiments of primary school in words, by its own simulator, in Java."""
