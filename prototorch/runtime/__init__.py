"""The engine: plans bound to memory and run, and the eager tape."""
