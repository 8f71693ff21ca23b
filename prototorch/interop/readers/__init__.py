"""Readers of weight files, one module a format; a module that is there is registered."""
