"""Native kernels, one file a family; presence is registration."""
