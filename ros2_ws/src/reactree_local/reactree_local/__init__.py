"""Language models that decide in this process, with the weights that ship."""
