"""Ops that move elements: reshapes, transposes, slices, joins, padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from prototorch import layers
from prototorch.interop.onnx.importer.batch_place import fixed_shape
from prototorch.interop.onnx.importer.builder import NetBuilder
from prototorch.interop.onnx.importer.constants import integer_array, onnx_slice
from prototorch.interop.onnx.importer.node import OnnxNode
from prototorch.interop.onnx.importer.operands import (
    BatchSize,
    KnownArray,
    NetValue,
    Operand,
    format_shape,
    positive_axes,
    positive_axis,
)
from prototorch.interop.onnx.importer.registry import NoLayerError, imports

__all__: list[str] = []


@imports("Shape")
def _shape(b: NetBuilder, node: OnnxNode) -> Operand:
    return KnownArray(integer_array(list(node.value(0).shape)[slice(node.get("start"), node.get("end"))]))


@imports("Size")
def _size(b: NetBuilder, node: OnnxNode) -> Operand:
    total: Any = 1
    for n in node.value(0).shape:
        total = n * total
    return KnownArray(integer_array([total]).reshape(()))


@imports("Reshape")
def _reshape(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    shape = node.get("shape") or node.integers(1, "shape")
    if not node.flag("allowzero", 0):
        if any(not isinstance(n, BatchSize) and n == 0 and i >= x.ndim for i, n in enumerate(shape)):
            raise NoLayerError(
                f"a reshape keeps a dimension that its input of shape {format_shape(x.shape)} does not have"
            )
        shape = [x.shape[i] if not isinstance(n, BatchSize) and n == 0 else n for i, n in enumerate(shape)]
    return b.reshape(x, shape)


@imports("Flatten")
def _flatten(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    axis = node.get("axis", 1)
    axis = x.ndim if axis == x.ndim else positive_axis(axis, x.ndim)  # all dimensions may be before it
    before: Any = 1
    for n in x.shape[:axis]:
        before = n * before
    after: Any = 1
    for n in x.shape[axis:]:
        after = n * after
    return b.reshape(x, [before, after])


@imports("Squeeze")
def _squeeze(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    axes = node.parameter("axes", 1)
    if axes is None and b.fixed_batch == 1 and BatchSize() in x.shape:  # the file loses its batch of 1, too
        return b.reshape(x, [n for n in fixed_shape(x, 1) if n != 1])
    if axes is None:
        places = {i for i, n in enumerate(x.shape) if not isinstance(n, BatchSize) and n == 1}
    else:
        places = set(positive_axes(axes, x.ndim))
    if x.batch_axis in places:
        raise NoLayerError("it removes the batch dimension")
    if any(x.shape[i] != 1 for i in places):
        raise NoLayerError(f"it squeezes dimensions {sorted(places)} of {format_shape(x.shape)}, which are not 1")
    return b.reshape(x, [n for i, n in enumerate(x.shape) if i not in places])


@imports("Unsqueeze")
def _unsqueeze(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    axes = node.parameter("axes", 1)
    if axes is None:
        raise NoLayerError("its axes are missing")
    ndim = x.ndim + len(axes)
    places = positive_axes(axes, ndim)
    rest = iter(x.shape)
    return b.reshape(x, [1 if i in places else next(rest) for i in range(ndim)])


@imports("Transpose")
def _transpose(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    return b.transpose(x, node.get("perm") or list(reversed(range(x.ndim))))


@imports("Concat")
def _concat(b: NetBuilder, node: OnnxNode) -> Operand:
    operands = [a for a in node.args if a is not None]
    if len(operands) == 1:
        return operands[0]
    if any(isinstance(a, KnownArray) and a.array.dtype == object for a in operands):
        raise NoLayerError("it joins computed values with the batch size")
    first = next(a for a in operands if isinstance(a, NetValue))
    ndim = first.ndim
    axis = first.axis(node.get("axis", 1))
    if any(a.ndim != ndim for a in operands):
        raise NoLayerError("it joins values of different numbers of dimensions")
    values = [_expanded(b, a, first) if isinstance(a, KnownArray) else a for a in operands]
    if len({(v.batch_axis, v.parts) for v in values}) > 1:
        raise NoLayerError("it joins values whose batch dimensions lie at different places")
    return b.add(layers.Concatenate(axis=axis), *values)


def _expanded(b: NetBuilder, constant: KnownArray, like: NetValue) -> NetValue:
    """A constant of the shape of values, with 1 (or the size the file was made for) in place of the batch."""
    array, axis = constant.array, like.batch_axis
    if axis is None:
        return b.parameter(constant, like)
    if array.shape[axis] != b.fixed_batch or not (array == np.take(array, [0], axis)).all():
        raise NoLayerError("it joins samples with constants, one for each sample")
    array = np.take(array, [0], axis)
    if like.extra:
        raise NoLayerError("it joins constants with values whose batch dimension is joined with others")
    shape = [n for i, n in enumerate(array.shape) if i != axis]
    return b.parameter(KnownArray(array.reshape(shape), constant.name), like)


@imports("Slice")
def _slice(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    if node.version < 10:
        starts, ends, axes, steps = node.get("starts"), node.get("ends"), node.get("axes"), None
    else:
        starts, ends = (node.integers(i, n) for i, n in ((1, "starts"), (2, "ends")))
        axes, steps = node.parameter("axes", 3), node.parameter("steps", 4)
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise NoLayerError(f"it has {len(starts)} starts, {len(ends)} ends, {len(axes)} axes and {len(steps)} steps")
    axes = positive_axes(axes, x.ndim)
    bounds: dict[int, slice] = {}
    for start, stop, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = x.shape[axis]
        if isinstance(size, BatchSize):
            if start == 0 and step == 1 and (stop == size or (isinstance(stop, int) and stop >= 1 << 31)):
                continue
            x.axis(axis)
        part = onnx_slice(int(start), int(stop), int(step), int(size))
        if part != slice(0, size, 1):
            bounds[x.axis(axis)] = part
    if not bounds:
        return x
    axes = sorted(bounds)
    fields = {
        "axes": axes,
        "starts": [bounds[a].start for a in axes],
        "steps": [bounds[a].step for a in axes],
        "stops": [_stop(bounds[a], x.dims[a - 1]) for a in axes],
    }
    return b.add(b.make(layers.Slice, **fields), x)


def _stop(part: slice, size: int) -> int:
    """The end of a slice as an integer: before the first element it is -size - 1."""
    return -size - 1 if part.stop is None else part.stop


@imports("Split")
def _split(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    axis, count = x.axis(node.get("axis", 0)), len(node.outputs)
    sizes = node.parameter("split", 1)
    total = x.dims[axis - 1]
    if sizes is None:
        part = -(-total // count)
        sizes = [part] * (count - 1) + [total - part * (count - 1)]
    if node.get("num_outputs", count) != count:
        raise NoLayerError(f"its attribute num_outputs is {node.get('num_outputs')}, and it has {count} outputs")
    if sum(sizes) != total or len(sizes) != count or min(sizes) < 1:
        raise NoLayerError(f"it splits {total} elements into {list(sizes)[:8]}")
    if count == 1:
        return x
    return b.add_many(b.make(layers.Split, sizes=list(sizes), axis=axis), [x])  # type: ignore[return-value]


@imports("Gather")
def _gather(b: NetBuilder, node: OnnxNode) -> Operand:
    data, indices = node.required(0), node.required(1)
    if isinstance(data, KnownArray):
        return _lookup(b, node, data, node.value(1))
    if isinstance(indices, NetValue):
        raise NoLayerError("it picks elements of a computed value by computed indices")
    axis = data.axis(node.get("axis", 0))
    size = data.dims[axis - 1]
    picked = [i + size if i < 0 else i for i in indices.ints()]
    if any(not 0 <= i < size for i in picked):
        raise NoLayerError(f"an index is not among {size} elements")
    if indices.ndim == 0:
        one = b.add(b.make(layers.Slice, axes=[axis], starts=picked, stops=[picked[0] + 1]), data) if size > 1 else data
        shape = list(data.shape)
        del shape[node.get("axis", 0)]
        return b.reshape(one, shape)
    rows_of_data = b.add(b.make(layers.Take, indices=picked, axis=axis), data)
    if indices.ndim == 1:
        return rows_of_data
    place = positive_axis(node.get("axis", 0), data.ndim)
    return b.reshape(rows_of_data, [*data.shape[:place], *indices.shape, *data.shape[place + 1 :]])


def _lookup(b: NetBuilder, node: OnnxNode, table: KnownArray, indices: NetValue) -> Operand:
    """Rows of a constant table."""
    if table.ndim < 1 or positive_axis(node.get("axis", 0), table.ndim) != 0:
        raise NoLayerError("it picks columns of a constant by computed indices")
    rest = table.shape[1:]
    flat = KnownArray(np.ascontiguousarray(table.array).reshape(table.shape[0], -1), table.name)
    if not flat.array.dtype.kind == "f":
        raise NoLayerError("it picks integers of a constant by computed indices")
    layer = b.make(layers.Embedding, input_dim=flat.shape[0], output_dim=flat.shape[1])
    y = b.add(layer, indices, embeddings=flat)
    return y if len(rest) == 1 else b.reshape(y, [*indices.shape, *rest])


@imports("GatherElements")
def _gather_elements(b: NetBuilder, node: OnnxNode) -> Operand:
    data, indices = node.required(0), node.required(1)
    first = data if isinstance(data, NetValue) else node.value(1)
    axis = first.axis(node.get("axis", 0))
    for i, (n, m) in enumerate(zip(data.shape, indices.shape, strict=True)):
        if n != m and i not in (positive_axis(node.get("axis", 0), data.ndim), first.batch_axis):
            shapes = f"{format_shape(data.shape)} by {format_shape(indices.shape)}"
            raise NoLayerError(f"it picks from {shapes}, whose other sizes differ")
    values = [v if isinstance(v, NetValue) else _expanded(b, v, first) for v in (data, indices)]
    return b.add(b.make(layers.TakeAlongAxis, axis=axis), *values)


@imports("Expand")
def _expand(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    target_shape = node.integers(1, "shape")
    ndim = max(x.ndim, len(target_shape))
    target = [*[1] * (ndim - len(target_shape)), *target_shape]
    have = [*[1] * (ndim - x.ndim), *x.shape]
    lifted = b.reshape(x, have) if x.ndim < ndim else x
    sizes = []
    for i, (n, t) in enumerate(zip(have, target, strict=True)):
        if i == lifted.batch_axis:
            if t not in (1, n, b.fixed_batch):
                raise NoLayerError("it repeats samples")
            continue
        if isinstance(t, BatchSize):
            raise NoLayerError("it repeats a value along a second batch dimension")
        if 1 not in (n, t) and n != t:
            raise NoLayerError(f"{format_shape(x.shape)} does not broadcast to {format_shape(target)}")
        sizes.append(int(n) if t == 1 else int(t))
    if tuple(sizes) == lifted.others:
        return lifted
    dims = [*lifted.dims[: lifted.extra], *sizes]
    return b.add(b.make(layers.BroadcastTo, shape=dims), lifted)


@imports("Tile")
def _tile(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    repeats = [int(n) for n in node.integers(1, "repeats")]
    if len(repeats) != x.ndim or min(repeats) < 1:
        raise NoLayerError(f"repeats {repeats[:8]} do not fit {x.ndim} dimensions")
    if x.batch_axis is not None and repeats[x.batch_axis] != 1:
        raise NoLayerError("it repeats samples")
    rest = [n for i, n in enumerate(repeats) if i != x.batch_axis]
    return x if max(rest) == 1 else b.add(b.make(layers.Tile, repeats=[*[1] * x.extra, *rest]), x)


@imports("Pad")
def _pad(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    pads = list(node.get("pads") or node.get("paddings") or [int(n) for n in node.integers(1, "pads")])
    number = node.constant(2, "constant_value") if node.version >= 11 else None
    value = node.get("value", 0.0) if node.version < 11 else 0.0 if number is None else number.scalar()
    axes = node.parameter("axes", 3) if node.version >= 18 else None
    places = positive_axes(axes, x.ndim) if axes is not None else list(range(x.ndim))
    if len(pads) != 2 * len(places):
        raise NoLayerError(f"pads {pads[:12]} do not fit {len(places)} dimensions")
    pairs = [[0, 0] for _ in x.dims]
    for i, axis in enumerate(places):
        pair = [pads[i], pads[i + len(places)]]
        if any(pair):
            pairs[x.axis(axis) - 1] = pair
    mode = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}.get(
        node.get("mode", "constant")
    )
    if mode is None:
        raise NoLayerError(f"the mode {node.get('mode')!r} is not known")
    if any(n < 0 for pair in pairs for n in pair):
        axes = [i + 1 for i, pair in enumerate(pairs) if min(pair) < 0]
        starts = [max(-pairs[a - 1][0], 0) for a in axes]
        stops = [x.dims[a - 1] - max(-pairs[a - 1][1], 0) for a in axes]
        x = b.add(b.make(layers.Slice, axes=axes, starts=starts, stops=stops), x)
        pairs = [[max(n, 0) for n in pair] for pair in pairs]
    if not any(n for pair in pairs for n in pair):
        return x
    if x.is_plain and mode == "constant" and value == 0 and len(x.dims) in (2, 3, 4) and pairs[0] == [0, 0]:
        kind = getattr(layers, f"ZeroPadding{len(x.dims) - 1}D")
        return b.add(b.make(kind, padding=pairs[1:]), x)
    return b.add(b.make(layers.Pad, padding=pairs, mode=mode, value=float(value)), x)


@imports("DepthToSpace", "SpaceToDepth")
def _depth_space(b: NetBuilder, node: OnnxNode) -> Operand:
    fields: dict[str, Any] = {"block_size": node.get("blocksize")}
    if node.op == "SpaceToDepth" and node.get("mode", "DCR") != "DCR":
        raise NoLayerError(f"the mode {node.get('mode')!r:.40} of SpaceToDepth has no layer")
    if node.op == "DepthToSpace":
        fields["order"] = {"DCR": "depth_first", "CRD": "channels_first"}[node.get("mode", "DCR")]
    kind = layers.DepthToSpace if node.op == "DepthToSpace" else layers.SpaceToDepth
    return b.add(b.make(kind, **fields), node.batch_first(0))


@imports("Trilu")
def _trilu(b: NetBuilder, node: OnnxNode) -> Operand:
    x = node.value(0)
    number = node.constant(1, "k")
    rows, columns = (x.dims[a - 1] for a in x.axes([-2, -1]))
    ones = np.ones((rows, columns), bool)
    k = 0 if number is None else int(number.scalar())
    mask = np.triu(ones, k) if node.flag("upper", 1) else np.tril(ones, k)
    zero = np.zeros((), x.dtype)
    return b.add(layers.Where(), *b.aligned([KnownArray(mask), x, KnownArray(zero)]))
