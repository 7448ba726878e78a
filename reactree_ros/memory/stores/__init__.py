"""The stores of episodic memory, one a module: each is found by the module's name and has a ``SPEC``."""
