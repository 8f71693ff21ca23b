"""Nets of ours as Caffe's: a module a family of layers, registered by being there."""
