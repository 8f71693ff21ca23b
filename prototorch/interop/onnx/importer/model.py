"""A whole ONNX model as a net of our layers with its weights."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prototorch import layers
from prototorch.errors import ModelError, ModelFileError, UsageError
from prototorch.graph.net import Net
from prototorch.interop.imported_model import ImportedModel
from prototorch.interop.onnx.importer.batch_place import fixed_batch_hint, fixed_shape
from prototorch.interop.onnx.importer.builder import NetBuilder
from prototorch.interop.onnx.importer.nodes import NodeRunner
from prototorch.interop.onnx.importer.operands import KnownArray, NetValue, Operand, net_dtype
from prototorch.interop.onnx.importer.registry import NoLayerError
from prototorch.interop.onnx.model_file import OnnxFile, open_onnx
from prototorch.interop.onnx.tensors import ELEMENT_TYPES
from prototorch.schema.names import to_name
from prototorch.text.limits import MAX_NAME_LENGTH

__all__ = ["OPSETS", "ImportedGraph", "import_graph", "import_onnx"]

OPSETS = range(7, 29)


def import_onnx(
    path: str | os.PathLike[str],
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    fixed_inputs: Mapping[str, float | Sequence[float]] | None = None,
    batch_axis: int | Mapping[str, int] = 0,
) -> ImportedModel:
    """Read an ONNX model as a net and its weights.

    Args:
        input_shapes: sizes that the file leaves open, by the input's name, without the batch dimension.
        fixed_inputs: inputs that become constants (a sampling rate, say), by name.
        batch_axis: the dimension of the inputs that is the batch, one for all or by name; 1 for sequences
            [time, batch, n].

    The batch may have any size, also where the file was made for one. Only inference is read: running statistics are
    used. Raises ModelFileError for a damaged file, and for ops without a layer, all of which it lists; UsageError where
    the onnx package is missing, and for wrong arguments.
    """
    return import_graph(open_onnx(path), input_shapes, fixed_inputs, batch_axis).model


class ImportedGraph:
    """The imported model, and which of its values the graph's inputs and outputs are."""

    def __init__(self, model: ImportedModel, inputs: Mapping[str, NetValue], outputs: Sequence[NetValue]):
        self.model, self.inputs, self.outputs = model, inputs, outputs


def import_graph(
    file: OnnxFile,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    fixed_inputs: Mapping[str, Any] | None = None,
    batch_axis: int | Mapping[str, int] | None = 0,
) -> ImportedGraph:
    """See `import_onnx`. batch_axis: None for a graph without a batch dimension; the net's values get one in front."""
    version = file.opsets.get("", 0)
    if file.graph.node and version not in OPSETS and any(n.domain in ("", "ai.onnx") for n in file.graph.node):
        raise ModelFileError(
            f"{file.path}: opset {version} of ai.onnx; read are {OPSETS[0]} to {OPSETS[-1]}: export the "
            "model again, or convert it with onnx.version_converter"
        )
    builder = NetBuilder()
    values = _Operands(file)
    inputs = _declare_inputs(file, builder, values, input_shapes or {}, fixed_inputs or {}, batch_axis)
    runner = NodeRunner(file, builder, values)
    results = runner.run()
    _check_output_types(file, runner.element_types)
    outputs = _outputs(file, builder, results, list(inputs.values()))
    net, weights = _live_part(file, builder, outputs)
    model = ImportedModel(net, weights, tuple(builder.notes), builder.original_names, _classes(file))
    return ImportedGraph(model, inputs, outputs)


class _Operands(dict[str, Operand]):
    """Operands by name; an initializer becomes one when it is asked for."""

    def __init__(self, file: OnnxFile):
        super().__init__()
        self._arrays = file.arrays

    def __missing__(self, name: str) -> Operand:
        array = self._arrays[name].read()
        self[name] = KnownArray(array.astype(np.float32) if array.dtype == np.float16 else array, name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._arrays


# ---------------------------------------------------------------- inputs


def _declare_inputs(
    file: OnnxFile,
    builder: NetBuilder,
    values: dict[str, Operand],
    shapes: Mapping[str, Sequence[int]],
    fixed: Mapping[str, Any],
    batch_axis: int | Mapping[str, int] | None,
) -> dict[str, NetValue]:
    declared = [i for i in file.graph.input if i.name not in file.arrays]
    names = [i.name for i in declared]
    for what, settings in (("input_shapes", shapes), ("fixed_inputs", fixed)):
        unknown = [n for n in settings if n not in names]
        if unknown:
            raise UsageError(f"{what}: the model has no input {unknown[0]!r}; its inputs are {', '.join(names)}")
    if len(set(names)) < len(names):
        raise ModelFileError(f"{file.path}: two inputs have one name")
    batch_name = _batch_name(declared) if batch_axis is not None and batch_axis != 1 else None
    result: dict[str, NetValue] = {}
    sizes_of_batch: list[int | str] = []
    open_inputs: dict[str, Sequence[int | str]] = {}
    for value in declared:
        dims, dtype = _input_type(file, value)
        builder.element_types[value.name] = dtype
        if value.name in fixed:
            values[value.name] = _fixed_input(value.name, fixed[value.name], dims, dtype)
            continue
        default = batch_axis.get(value.name, 0) if isinstance(batch_axis, Mapping) else batch_axis
        axis = None if default is None else _batch_axis(file, value.name, dims, batch_name, default)
        if axis is not None:
            sizes_of_batch.append(dims[axis])
        others = [n for i, n in enumerate(dims) if i != axis]
        if value.name not in shapes and not all(isinstance(n, int) for n in others):
            open_inputs[value.name] = others
            continue
        sizes = _sizes(value.name, others, shapes.get(value.name))
        if dtype.startswith("complex"):
            raise ModelFileError(
                f"{file.path}: the input {value.name!r} has elements of type {dtype}, which no net reads"
            )
        name = _input_name(value.name)
        if net_dtype(dtype) != dtype:
            builder.notes.append(f"the input {name} is {dtype} in the file; the net computes in float32")
            dtype = net_dtype(dtype)
        top = builder.add_input(value.name, name, sizes, dtype)
        values[value.name] = result[value.name] = NetValue(top, sizes, dtype, axis)
        if axis:
            builder.notes.append(
                f"the input {top} is read with the batch first, [batch, {', '.join(map(str, sizes))}]; "
                f"in the file the batch is dimension {axis}"
            )
    if open_inputs:
        raise _open_sizes_error(file, open_inputs)
    if sizes_of_batch and all(isinstance(n, int) and n > 0 for n in sizes_of_batch):
        builder.fixed_batch = int(sizes_of_batch[0])
    return result


def _fixed_input(name: str, number: Any, dims: Sequence[int | str], dtype: str) -> KnownArray:
    """An input that becomes a constant; a single number stands for an array of one element."""
    try:
        array = np.asarray(number, dtype)
        if array.ndim != len(dims) and array.size == 1:
            array = array.reshape([1] * len(dims))
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"fixed_inputs: {name!r} must be {dtype}{_format(dims)}: {error}") from None
    if array.ndim != len(dims) or any(isinstance(d, int) and d != n for d, n in zip(dims, array.shape, strict=True)):
        raise UsageError(f"fixed_inputs: {name!r} has the shape {_format(dims)}, not {list(array.shape)}")
    return KnownArray(array)


def _input_name(name: str) -> str:
    cleaned = to_name(name[:100]).replace(":", "_").strip("/.")
    return "/".join(part for part in cleaned.split("/") if part.strip(".")) or "input"


def _input_type(file: OnnxFile, value: Any) -> tuple[list[int | str], str]:
    """The sizes of an input, "" or a symbol where the file leaves one open, and its elements."""
    tensor = value.type.tensor_type
    dtype = ELEMENT_TYPES.get(tensor.elem_type)
    if not value.type.HasField("tensor_type") or dtype is None:
        raise ModelFileError(f"{file.path}: the input {value.name[:80]!r} is no array of numbers")
    if not tensor.HasField("shape"):
        raise ModelFileError(
            f"{file.path}: the input {value.name[:80]!r} has no shape; infer it with onnx.shape_inference, "
            "or export the model with one"
        )
    dims: list[int | str] = []
    for dim in tensor.shape.dim:
        dims.append(dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or "")
    return dims, dtype


def _batch_name(declared: Sequence[Any]) -> str | None:
    """The symbol of the batch size: that of the first dimension of the first input that has one."""
    for value in declared:
        dims = value.type.tensor_type.shape.dim
        if dims and dims[0].dim_param:
            return dims[0].dim_param
    return None


def _batch_axis(file: OnnxFile, name: str, dims: Sequence[int | str], batch_name: str | None, default: int) -> int:
    if len(dims) <= default:
        raise ModelFileError(
            f"{file.path}: the input {name!r} has the shape {_format(dims)}, without the batch: give it by "
            f"fixed_inputs (--fixed-input {name}=NUMBER)"
        )
    return dims.index(batch_name) if batch_name and batch_name in dims else default


def _sizes(name: str, declared: Sequence[int | str], requested: Sequence[int] | None) -> tuple[int, ...]:
    if requested is not None:
        sizes = tuple(requested)
        fits = len(sizes) == len(declared) and all(
            isinstance(n, int) and n > 0 and (not isinstance(d, int) or d == n)
            for n, d in zip(sizes, declared, strict=False)
        )
        if not fits:
            raise UsageError(
                f"input_shapes: {name!r} has the shape {_format(declared)} besides the batch dimension, not "
                f"{list(requested)}"
            )
        return sizes
    return tuple(int(n) for n in declared)


def _open_sizes_error(file: OnnxFile, inputs: Mapping[str, Sequence[int | str]]) -> UsageError:
    """The error for inputs whose sizes neither the file nor the caller tells: all of them at once."""
    what = "; ".join(f"the input {name!r} leaves sizes open: {_format(dims)}" for name, dims in inputs.items())
    shapes = ", ".join(f"{name!r}: ({', '.join(map(str, dims))},)" for name, dims in inputs.items())
    options = " ".join(f"--input-shape {name}={','.join(map(str, dims))}" for name, dims in inputs.items())
    return UsageError(
        f"{file.path}: {what}, besides the batch dimension; give them as numbers: input_shapes={{{shapes}}} ({options})"
    )


def _format(dims: Sequence[int | str]) -> str:
    return f"[{', '.join(str(d) or '?' for d in dims)}]"


# ---------------------------------------------------------------- outputs


def _outputs(
    file: OnnxFile, builder: NetBuilder, results: Mapping[str, Operand], inputs: Sequence[NetValue]
) -> list[NetValue]:
    outputs: list[NetValue] = []
    if not file.graph.output:
        raise ModelFileError(f"{file.path}: the graph has no outputs")
    tops = {v.top for v in inputs}
    for declared in file.graph.output:
        operand = results[declared.name]
        _check_output_shape(file, declared, operand, builder.fixed_batch)
        if isinstance(operand, KnownArray):
            if not inputs:
                raise ModelFileError(f"{file.path}: the graph computes constants alone; there is no net in it")
            builder.current = None
            try:
                operand = builder.parameter(operand, inputs[0])
            except NoLayerError as error:
                raise ModelFileError(f"{file.path}: its output {declared.name!r} is a constant: {error}") from None
            operand = NetValue(operand.top, operand.dims, operand.dtype, None)
        elif operand.top in tops or any(operand.top == o.top for o in outputs):
            operand = builder.add(layers.Linear(), operand)
        if operand.batch_axis:
            builder.notes.append(
                f"the output {operand.top} has the batch first; in the file's {declared.name} it is "
                f"dimension {operand.batch_axis}"
            )
        if operand.extra:
            builder.notes.append(
                f"the output {operand.top} keeps the {operand.extra} dimension(s) apart that the file's "
                f"{declared.name} joins with the batch"
            )
        if to_name(declared.name) != operand.top:
            builder.original_names.setdefault(operand.top, declared.name)
        outputs.append(operand)
    return outputs


def _check_output_shape(file: OnnxFile, declared: Any, operand: Operand, batch: int | None) -> None:
    """A file that was made for one batch size declares the output's shape for it."""
    tensor = declared.type.tensor_type
    if batch is None or not tensor.HasField("shape") or not isinstance(operand, NetValue):
        return
    sizes = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
    shape = fixed_shape(operand, batch)
    if len(sizes) != len(shape) or any(n is not None and n != m for n, m in zip(sizes, shape, strict=True)):
        raise ModelFileError(
            f"{file.path}: the output {declared.name[:80]!r} is declared as "
            f"{_format(['' if n is None else n for n in sizes])}, but the net gives {_format(shape)}"
            f"{fixed_batch_hint(batch)}"
        )


def _check_output_types(file: OnnxFile, element_types: Mapping[str, str]) -> None:
    """Raises ModelFileError for an output that is declared with elements of another type than it has."""
    for declared in file.graph.output:
        number = declared.type.tensor_type.elem_type
        stated = ELEMENT_TYPES.get(number, f"type {number}") if number else ""
        dtype = element_types.get(declared.name)
        if stated and dtype and stated != dtype:
            raise ModelFileError(
                f"{file.path}: the output {declared.name[:80]!r} is declared as {stated}, but the graph computes "
                f"{dtype}"
            )


def _live_part(file: OnnxFile, builder: NetBuilder, outputs: Sequence[NetValue]) -> tuple[Net, dict[str, np.ndarray]]:
    """The layers and inputs that the outputs depend on, and their weights."""
    live = {o.top for o in outputs}
    nodes = []
    for node in reversed(builder.nodes):
        if live.intersection(node.tops):
            live.update(node.bottoms)
            nodes.append(node)
    nodes.reverse()
    inputs = []
    for declared in builder.inputs:
        if declared.name in live:
            inputs.append(declared)
        else:
            builder.notes.append(f"the input {declared.name} is left out: no output depends on it")
    if not inputs:
        raise ModelFileError(f"{file.path}: no output depends on an input; there is no net in it")
    names = {n.name for n in nodes}
    builder.original_names = {k: v for k, v in builder.original_names.items() if k in names or k in live}
    keys = {n.weights_key for n in nodes}
    weights = {}
    for name, array in builder.weights.items():
        if builder.weight_owner[name] in keys:
            weights[name] = array
    title = to_name((file.graph.name or "imported")[:MAX_NAME_LENGTH]).strip("/.:") or "imported"
    try:
        net = Net(title, tuple(inputs), tuple(nodes), tuple(o.top for o in outputs))
    except ModelError as error:
        raise ModelFileError(f"{file.path}: {error}") from None
    return net, weights


def _classes(file: OnnxFile) -> tuple[str, ...]:
    """The names of the classes in the metadata, one a line or separated by commas, where they are there."""
    text = file.metadata.get("classes") or file.metadata.get("class_names") or ""
    separator = "\n" if "\n" in text else ","
    return tuple(part.strip() for part in text.split(separator) if part.strip())
