"""Passes: each takes the nodes of a graph and what is wanted of it, and gives back fewer or better ones."""
