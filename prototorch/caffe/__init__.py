"""pycaffe's face: Caffe's nets, blobs and solvers under the names that scripts use (``import prototorch.caffe``)."""
