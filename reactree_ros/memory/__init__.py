"""What agent nodes remember: episodic memory across runs, working memory within one (paper, section 4.2).

Import the modules one by one: `working` and `experience` need the standard library only.
"""
