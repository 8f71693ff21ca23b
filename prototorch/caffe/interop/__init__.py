"""Caffe's nets, weights and solvers, in both directions: messages <-> nets of our layers."""
