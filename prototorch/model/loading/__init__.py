"""A file's way into the weights of a model: read, names, layout, assign; one folder a stage."""
