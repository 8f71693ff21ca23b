"""Caffe's messages by their names, as the module that protobuf generates: ``caffe_pb2.NetParameter()``,
``caffe_pb2.TRAIN``, ``caffe_pb2.PoolingParameter.MAX``."""

from __future__ import annotations

from typing import Any

from prototorch.caffe.proto.message_classes import enum_names_of, message_class
from prototorch.caffe.text.message_types import enum_names, enum_type, message_names
from prototorch.errors import did_you_mean

TRAIN, TEST = enum_type("Phase").values["TRAIN"], enum_type("Phase").values["TEST"]


def __getattr__(name: str) -> Any:
    if name in message_names():
        return message_class(name)
    if name in enum_names() and "." not in name:
        return enum_names_of(name)
    raise AttributeError(f"Caffe has no message {name!r}.{did_you_mean(name, message_names())}")


def __dir__() -> list[str]:
    return ["TRAIN", "TEST", *message_names(), *(n for n in enum_names() if "." not in n)]
