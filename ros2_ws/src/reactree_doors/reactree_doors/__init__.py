"""Doors of reactree_ros to other programs: assistants by MCP, a fleet's memory, trees in XML, telemetry."""
