"""Caffe's data: the sources of its data layers, and the databases and files that they read."""

from prototorch.data.caffe.blob_source import BlobSource
from prototorch.data.caffe.opening import open_blob_source

__all__ = ["BlobSource", "open_blob_source"]
