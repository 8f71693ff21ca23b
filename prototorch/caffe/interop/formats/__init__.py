"""Caffe's files as formats of weights and of whole models, found by being here."""
