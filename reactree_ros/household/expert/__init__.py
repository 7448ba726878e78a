"""The expert: rules that decide in a household, and no language model."""
