"""Which weight of a file is which weight of a net: by declared rules, by name, or by order and shape."""
