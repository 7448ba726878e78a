"""ALFWorld (Shridhar et al., 2021): ALFRED's households in words, by its own games in PDDL on TextWorld."""
