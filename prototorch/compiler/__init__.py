"""`prototorch.compile`: functions of tensors that are traced once and run as plans."""
