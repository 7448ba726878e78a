"""Tools of MCP servers as skills of a world."""
