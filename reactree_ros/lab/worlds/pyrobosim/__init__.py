"""pyrobosim: mobile manipulators in a 2-D world, in a process of their own."""
