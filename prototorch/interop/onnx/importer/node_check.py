"""What the schema of the ONNX standard says of one node: its attributes, and the number and types of its inputs.

Every node passes here before its importer, so that importers need not look for attributes that are missing, unknown or
of another type. The package's own shape inference is not asked: its C++ ends the process for some graphs that are wrong
(an axis that does not exist, indexed without a check), and a file must not be able to do that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from typing import Any

from prototorch.interop.onnx.importer.node import OnnxNode
from prototorch.interop.onnx.importer.op_functions import find_schema
from prototorch.interop.onnx.importer.registry import NoLayerError
from prototorch.interop.onnx.tensors import ELEMENT_TYPES

__all__ = ["check_node"]

_LATEST = 1 << 30  # an opset: that of the installed package


def check_node(node: OnnxNode, element_types: MutableMapping[str, str]) -> None:
    """Raises NoLayerError for a node that breaks the schema of its op in its opset, with what the schema expects.

    element_types: ONNX' types of the values by name, as far as they are known; those of the node's outputs are entered.
    Nets compute in float32, so that the values themselves do not know it. A node of an op that the standard does not
    have in any opset is not checked.
    """
    if node.domain or node.proto is None:
        return
    schema = find_schema(node.op, node.version)
    if schema is None:
        if find_schema(node.op, _LATEST) is not None:
            raise NoLayerError(f"the standard has no {node.op} in opset {node.version}")
        return
    if schema.deprecated:
        raise NoLayerError(
            f"the standard has no {node.op} from opset {schema.since_version} on, and the file has {node.version}"
        )
    _check_count("inputs", len(node.inputs), schema.min_input, schema.max_input)
    _check_count("outputs", len(node.outputs), schema.min_output, schema.max_output)
    _check_attributes(node, schema)
    type_variables = _check_types(node, schema, element_types)
    for name, formal in zip(node.outputs, schema.outputs, strict=False):
        dtype = _output_type(node, formal, type_variables, element_types)
        if dtype.startswith("float8"):
            raise NoLayerError(f"its output is {dtype}, which no net computes")
        if name and dtype:
            element_types[name] = dtype


def _output_type(
    node: OnnxNode, formal: Any, type_variables: Mapping[str, str], element_types: Mapping[str, str]
) -> str:
    """The elements of an output; "" where they are not known."""
    if node.op == "Cast":
        return ELEMENT_TYPES.get(node.get("to"), "")
    if node.op == "CastLike":
        return element_types.get(node.inputs[1], "")
    if formal.type_str.startswith("tensor("):
        return _our_name(formal.type_str)
    return type_variables.get(formal.type_str, "")


def _check_count(what: str, count: int, least: int, most: int) -> None:
    if not least <= count <= most:
        expected = str(least) if least == most else f"{least} or more" if most > 1 << 30 else f"{least} to {most}"
        raise NoLayerError(f"it has {count} {what}; expected {expected}")


def _check_attributes(node: OnnxNode, schema: Any) -> None:
    for attribute in node.proto.attribute:
        name = attribute.name
        declared = schema.attributes.get(name)
        if declared is None:
            if not name.startswith("__"):  # those are for tools
                attribute_names = ", ".join(sorted(schema.attributes)) or "none"
                raise NoLayerError(
                    f"it has no attribute {name[:60]!r} in opset {node.version}; it has {attribute_names}"
                )
        elif attribute.type and attribute.type != declared.type.value:
            kind = type(attribute).AttributeType.Name
            raise NoLayerError(
                f"its attribute {name} is a value of type {kind(attribute.type)}; expected {declared.type.name}"
            )
    for name, declared in schema.attributes.items():
        if declared.required and name not in node.attributes:
            raise NoLayerError(f"its attribute {name} is missing")


def _check_types(node: OnnxNode, schema: Any, element_types: Mapping[str, str]) -> dict[str, str]:
    """The types that the type variables of the schema stand for; "" for a floating-point type that is not known.

    Raises NoLayerError for inputs of types that the op does not take, or that it takes only if they are equal.
    """
    allowed = {c.type_param_str: {_our_name(t) for t in c.allowed_type_strs} for c in schema.type_constraints}
    type_variables: dict[str, tuple[int, str]] = {}
    for index, arg in enumerate(node.args):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        if arg is None:
            if formal.option.name != "Optional":
                raise NoLayerError(f"input {index} ({formal.name}) is missing")
            continue
        dtype = element_types.get(node.inputs[index], "" if _is_float(arg.dtype) else arg.dtype)
        choice = allowed.get(formal.type_str) or {_our_name(formal.type_str)}
        if not (dtype in choice if dtype else any(map(_is_float, choice))):
            raise NoLayerError(f"input {index} ({formal.name}) is {dtype or arg.dtype}, which {node.op} does not take")
        if formal.type_str in allowed and formal.is_homogeneous:
            first, other = type_variables.setdefault(formal.type_str, (index, dtype))
            if other != dtype and ((dtype and other) or not _is_float(dtype or other)):
                types = f"{other or 'floats'} and {dtype or 'floats'}"
                raise NoLayerError(f"inputs {first} and {index} are {types}; {node.op} takes one type")
            if not other:
                type_variables[formal.type_str] = first, dtype
    return {name: dtype for name, (_, dtype) in type_variables.items()}


def _our_name(type_string: str) -> str:
    """NumPy's name of "tensor(double)"."""
    name = type_string.removeprefix("tensor(").removesuffix(")")
    name = {"float": "float32", "double": "float64"}.get(name, name)
    return re.sub(r"^float8(e\dm\d)", r"float8_\1", name)


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))
