"""Measuring: where the time of a step goes, what this machine could do, and what PyTorch takes for the same net."""
