"""The executor of the CUDA backend: input staging, the step as a CUDA graph, the loss check, and mirrored states."""
