"""Work in the background: pending results, threads, our own processes."""
