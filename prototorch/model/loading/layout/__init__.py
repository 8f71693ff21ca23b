"""The third stage: the order of the axes of each array, as the system that wrote the file has it."""
