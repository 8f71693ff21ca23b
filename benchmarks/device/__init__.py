"""The first half hour on a GPU: what is run in which order, with results that outlast an interruption (README.md)."""
