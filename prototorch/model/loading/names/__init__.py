"""The second stage: which array of a file is which weight of a net, by rules, by name, or by order and shape."""
