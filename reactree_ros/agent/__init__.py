"""What one agent node says: decisions, their grammar and parser, its prompt, its budget."""
