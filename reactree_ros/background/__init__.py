"""What goes on meanwhile: a pending result, a thread, a process of our own."""
