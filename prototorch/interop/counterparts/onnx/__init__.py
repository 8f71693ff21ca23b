"""ONNX' counterparts of our layers and ops, one file a group of families."""
