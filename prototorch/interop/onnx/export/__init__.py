"""Export to ONNX: layers with a direct counterpart, and the ops of all others."""
