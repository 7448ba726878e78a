"""Files: read with limits and checks, written completely and without keys."""
