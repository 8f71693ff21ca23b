"""Readers of weight files, one module a format; a `Format` at the top of a module is registered by being there."""
