"""First model texts for a person's own data: `prototorch init`."""
