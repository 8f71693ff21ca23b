"""Keras: its files, the layouts of its layers' weights, and its models' configs."""
