"""Convolutions and their gradients."""
