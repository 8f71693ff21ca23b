"""The last stage: the arrays are checked, copied into the weights, all or none, and reported."""
