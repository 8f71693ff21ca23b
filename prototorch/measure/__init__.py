"""Measuring: the profile of a step, the peak rates of this machine, and the time of PyTorch for the same net."""
