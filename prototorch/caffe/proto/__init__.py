"""Caffe's messages with the names and manners of protobuf's Python classes: ``from prototorch.caffe.proto import
caffe_pb2, text_format``."""

from prototorch.caffe.proto import caffe_pb2, text_format

__all__ = ["caffe_pb2", "text_format"]
