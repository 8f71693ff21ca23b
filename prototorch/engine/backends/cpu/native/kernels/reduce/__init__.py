"""Reductions, scans, softmax, argmax and top-k."""
