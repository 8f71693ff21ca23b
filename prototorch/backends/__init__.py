"""Where ops run: the plain bodies, and the kernels that are faster on one kind of machine."""
