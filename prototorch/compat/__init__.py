"""Words of other systems over what is here, so that their programs run with their import lines changed."""
