"""Files: durable writing, checkpoints in HDF5, and safe reading of files from elsewhere."""
