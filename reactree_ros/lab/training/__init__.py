"""A small language model of one's own, trained on a dataset of decisions; torch is only imported in here."""
