"""Whole models of Keras as nets of ours: their configs are read as data; no class that they name is looked up."""
