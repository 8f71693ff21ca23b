"""Measurements against the other frameworks that are installed: README.md beside this file says how."""
