"""One module for each command, each with its ``command``."""
