"""What agent nodes remember: episodic memory across runs, knowledge within one (paper, section 4.2)."""
