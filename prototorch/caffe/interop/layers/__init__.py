"""How each of Caffe's layers is expressed in ours: a module a family, registered by being there."""
