"""Where ops run: the dispatcher, and the kernels of the CPU and of CUDA."""
