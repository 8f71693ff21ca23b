"""Caffe's data: the sources of its data layers, and the databases and files that they read."""

from prototorch.caffe.data.blob_source import BlobSource
from prototorch.caffe.data.opening import open_blob_source

__all__ = ["BlobSource", "open_blob_source"]
