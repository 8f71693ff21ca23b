"""prototorch: deep learning from a text file."""

__version__ = "0.1.0"
