"""Caffe's prototxt: typed messages, read from a text's tree, upgraded from old forms, and written again."""
