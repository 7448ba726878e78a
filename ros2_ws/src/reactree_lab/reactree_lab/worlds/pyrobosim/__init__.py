"""pyrobosim: mobile manipulators in a 2-D world, in their own process."""
