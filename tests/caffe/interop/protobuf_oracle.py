"""Caffe's messages in the ``protobuf`` package, with descriptors made from the table of definitions."""

from __future__ import annotations

from functools import cache

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from prototorch.caffe.text.message_definitions import DEFINITIONS
from prototorch.caffe.text.message_types import enum_type, message_type

MESSAGE_NAMES = [line.split()[1][:-1] for line in DEFINITIONS.splitlines() if line.startswith("message ")]
ENUM_NAMES = [line.split()[1].rstrip(":") for line in DEFINITIONS.splitlines() if line.startswith("enum ")]


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="caffe_definitions.proto", package="caffe", syntax="proto2")
    messages = {name: file.message_type.add(name=name) for name in MESSAGE_NAMES}
    for full_name in ENUM_NAMES:
        outer, _, name = full_name.rpartition(".")
        target = messages[outer].enum_type if outer else file.enum_type
        values = enum_type(full_name).values.items()
        target.add(name=name, value=[{"name": word, "number": number} for word, number in values])
    for message_name, proto in messages.items():
        for field in message_type(message_name).fields.values():
            label = kinds.LABEL_REPEATED if field.is_repeated else kinds.LABEL_OPTIONAL
            added = proto.field.add(name=field.name, number=field.number, label=label)
            if field.is_required:
                added.label = kinds.LABEL_REQUIRED
            if field.is_message or field.is_enum:
                added.type = kinds.TYPE_MESSAGE if field.is_message else kinds.TYPE_ENUM
                added.type_name = f".caffe.{field.type}"
            else:
                added.type = getattr(kinds, f"TYPE_{field.type.upper()}")
            if field.default is not None and not field.is_message and field.type != "bytes":
                added.default_value = str(field.default).lower() if field.type == "bool" else str(field.default)
            if field.is_packed:
                added.options.packed = True
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def protobuf_message(name: str):
    """An empty message of protobuf's own."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"caffe.{name}"))()


def parse_text(text: str, like):
    """A text as a message of protobuf's own, of the type of another one."""
    return text_format.Parse(text, type(like)())
