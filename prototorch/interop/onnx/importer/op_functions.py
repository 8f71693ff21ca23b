"""Ops that the ONNX standard itself defines by other ops: their bodies stand in for a layer of their own."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from prototorch.interop.onnx import onnx_package
from prototorch.interop.onnx.importer.node import OnnxNode
from prototorch.interop.onnx.importer.operands import BatchSize
from prototorch.interop.onnx.tensors import ELEMENT_TYPES

__all__ = ["find_schema", "op_function_body"]

_TYPE_NUMBERS = {name: number for number, name in ELEMENT_TYPES.items()}


@lru_cache(1024)
def find_schema(op: str, version: int) -> Any | None:
    """The schema of an op of the default domain in an opset; None for an op that the standard does not have there."""
    defs = onnx_package("onnx.defs")
    try:
        return defs.get_schema(op, min(version, defs.onnx_opset_version()) or 1)
    except Exception:  # onnx.defs.SchemaError: an unknown op
        return None


def op_function_body(node: OnnxNode, version: int) -> Any | None:
    """The FunctionProto of an op for a node; None for an op that is not defined by others, and an unknown one."""
    if node.domain or node.proto is None:
        return None
    schema = find_schema(node.op, version)
    if schema is None:
        return None
    if schema.has_function:
        body = schema.function_body
    elif schema.has_context_dependent_function and node.args:
        body = _context_dependent_body(node, schema)
    else:
        return None
    return body if body is not None and len(body.node) else None


def _context_dependent_body(node: OnnxNode, schema: Any) -> Any | None:
    """The body of an op whose function depends on the types of its inputs."""
    onnx = onnx_package()
    types = []
    for arg in node.args:
        kind = onnx.TypeProto()
        if arg is not None:
            kind.tensor_type.elem_type = _TYPE_NUMBERS.get(arg.dtype, 1)
            for n in arg.shape:
                dim = kind.tensor_type.shape.dim.add()
                if isinstance(n, BatchSize):
                    dim.dim_param = "batch"
                else:
                    dim.dim_value = int(n)
        types.append(kind.SerializeToString())
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= max(node.version, 1)]
    if not versions:
        return None
    try:
        body = schema.get_context_dependent_function_with_opset_version(
            max(versions), _with_attributes(node).SerializeToString(), types
        )
        function = onnx.FunctionProto()
        function.ParseFromString(body)
    except Exception:  # the schema's own checks of the node
        return None
    return function


def _with_attributes(node: OnnxNode) -> Any:
    """The NodeProto with values in place of references to the attributes of the function that it stands in."""
    proto = node.proto
    if not any(a.ref_attr_name for a in proto.attribute):
        return proto
    onnx = onnx_package()
    resolved = onnx.NodeProto()
    resolved.CopyFrom(proto)
    del resolved.attribute[:]
    for attribute in proto.attribute:
        if not attribute.ref_attr_name:
            resolved.attribute.append(attribute)
        elif attribute.name in node.attributes:
            value = node.attributes[attribute.name]
            value = onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
            resolved.attribute.append(onnx.helper.make_attribute(attribute.name, value))
    return resolved
