"""Keras' counterparts of our layers, one file a family."""
