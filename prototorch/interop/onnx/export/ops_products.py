"""Matrix products, convolution, pooling, normalization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.graph.ir import Value
from prototorch.interop.onnx.export.walker import OpExport, OpWalker, exports_op
from prototorch.interop.symbolic_batch import BatchMultiple
from prototorch.ops.windows import dilated_size


@exports_op("matmul")
def _matmul(export: OpExport) -> None:
    names, attributes = [], export.attributes
    for index, flag in enumerate(("transpose_a", "transpose_b")):
        name, rank = export.name(index), len(export.dims(index))
        if attributes.get(flag):
            name = export.emit("Transpose", [name], {"perm": [*range(rank - 2), rank - 1, rank - 2]})
        names.append(name)
    export.result("MatMul", names)


@exports_op("add")
def _add(export: OpExport) -> None:
    """The sum; with a product or a convolution that nothing else reads its bias."""
    for index in (0, 1):
        product, bias = export.inputs[index], export.inputs[1 - index]
        if product.producer in export.walker.product_nodes and export.walker.joins_bias(product, bias):
            assert product.producer is not None
            write_product(OpExport(export.walker, product.producer, export.scope), bias, export.node.outputs[0])
            return
    export.result("Add", export.elementwise_inputs())


@exports_op("conv", "conv_input_grad")
def _conv(export: OpExport) -> None:
    write_product(export, None, export.node.outputs[0])


def write_product(export: OpExport, bias: Value | None, result: Value) -> None:
    """A convolution, a transposed one or a product of matrices, with its bias."""
    names = [export.name(0), export.name(1)]
    if bias is not None:
        names.append(_vector(export.walker, bias))
    if export.node.op.name == "matmul":
        export.result("Gemm", names, value=result)
        return
    attrs = export.attributes
    attributes: dict[str, Any] = {"kernel_shape": list(export.inputs[1].shape[2:]), "strides": list(attrs["strides"]),
                                  "dilations": list(attrs["dilation"]), "group": attrs.get("groups", 1)}  # fmt: skip
    pads = attrs["pads"]
    if export.node.op.name == "conv_input_grad":
        pads, extra = _transposed_pads(export)
        if any(extra):
            attributes["output_padding"] = extra
    export.result(
        "Conv" if export.node.op.name == "conv" else "ConvTranspose",
        names,
        attributes | {"pads": onnx_pads(pads)},
        value=result,
    )


def _transposed_pads(export: OpExport) -> tuple[list[tuple[int, int]], list[int]]:
    """What is cut off the full output at both ends, and what is added at its end."""
    attrs, pads, extras = export.attributes, [], []
    sizes = zip(
        attrs["size"],
        export.inputs[0].shape[2:],
        export.inputs[1].shape[2:],
        attrs["strides"],
        attrs["dilation"],
        attrs["pads"],
        strict=True,
    )
    for size, steps, kernel, stride, dilation, (before, after) in sizes:
        whole = (steps - 1) * stride + dilated_size(kernel, dilation)
        extra = size + before + after - whole
        pads.append((before, after - min(extra, 0)))
        extras.append(max(extra, 0))
    return pads, extras


def _vector(walker: OpWalker, bias: Value) -> str:
    """A bias [channels, 1, ...] as [channels], under the name of its weight."""
    array = walker.known_array(bias)
    assert array is not None
    if array.ndim == 1:
        return walker.name(bias)
    source = bias.producer.inputs[0] if bias.producer is not None and bias.producer.inputs else None
    if source is not None and source.shape == (array.size,):
        return walker.name(source)
    return walker.builder.constant(array.reshape(-1), "bias")


def onnx_pads(pads: Sequence[tuple[int, int]]) -> list[int]:
    """((before, after), ...) as ONNX lists them: all before, then all after."""
    return [a for a, _ in pads] + [b for _, b in pads]


@exports_op("max_pool")
def _max_pool(export: OpExport) -> None:
    export.result("MaxPool", [export.name(0)], _window_attributes(export))


@exports_op("avg_pool")
def _avg_pool(export: OpExport) -> None:
    name, attributes = export.name(0), _window_attributes(export)
    if export.attributes_or_defaults()["include_pad"]:
        pads = export.attributes["pads"]
        if attributes.get("pads", onnx_pads(pads)) == onnx_pads(pads) and "ceil_mode" not in attributes:
            attributes["count_include_pad"] = 1
        else:  # only the declared padding counts, not what the last window reaches beyond it
            amounts = export.integers([0, 0, *(a for a, _ in pads), 0, 0, *(b for _, b in pads)])
            name = export.emit("Pad", [name, amounts])
            reach = attributes.get("pads", [0] * 2 * len(pads))
            attributes["pads"] = [n - m for n, m in zip(reach, onnx_pads(pads), strict=True)]
    export.result("AveragePool", [name], attributes)


def _window_attributes(export: OpExport) -> dict[str, Any]:
    """The windows; the last one's reach beyond the end is written as padding where ``ceil_mode`` could be read in two
    ways."""
    attrs = export.attributes
    kernel, strides, pads = attrs["kernel"], attrs["strides"], attrs["pads"]
    attributes: dict[str, Any] = {"kernel_shape": list(kernel), "strides": list(strides)}
    sizes, windows = export.inputs[0].shape[2:], export.node.outputs[0].shape[2:]
    ends = [
        (count - 1) * s + k - n - a
        for n, count, k, s, (a, _) in zip(sizes, windows, kernel, strides, pads, strict=True)
    ]
    if all(end <= b for end, (_, b) in zip(ends, pads, strict=True)):
        whole = list(pads)
    else:
        counts = [-(-(n - k) // s) + 1 for n, k, s in zip(sizes, kernel, strides, strict=True)]
        if not any(n for pair in pads for n in pair) and counts == list(windows):
            return attributes | {"ceil_mode": 1}
        whole = [(a, max(b, end)) for end, (a, b) in zip(ends, pads, strict=True)]
    return attributes | {"pads": onnx_pads(whole)} if any(n for pair in whole for n in pair) else attributes


@exports_op("batch_norm_inference")
def _batch_norm(export: OpExport) -> None:
    rank = len(export.dims())
    axis = export.attributes_or_defaults()["axis"] % rank
    parameters = [export.name(i) for i in range(1, 5)]
    epsilon = {"epsilon": float(export.attributes["eps"])}
    if axis == 1:
        export.result("BatchNormalization", [export.name(0), *parameters], epsilon)
        return
    swap = list(range(rank))
    swap[1], swap[axis] = axis, 1
    first = export.emit("Transpose", [export.name(0)], {"perm": swap})
    export.result("Transpose", [export.emit("BatchNormalization", [first, *parameters], epsilon)], {"perm": swap})


@exports_op("layer_norm", since=17)
def _layer_norm(export: OpExport) -> None:
    rank = len(export.dims())
    axis = export.attributes["axis"]
    over = sorted(a % rank for a in ([axis] if isinstance(axis, int) else axis))
    names = [export.name(1), export.name(2)]
    attributes = {"axis": -len(over), "epsilon": float(export.attributes["eps"])}
    order = [*(i for i in range(rank) if i not in over), *over]
    if order == list(range(rank)):
        export.result("LayerNormalization", [export.name(0), *names], attributes)
        return
    moved = export.emit("Transpose", [export.name(0)], {"perm": order})
    normal = export.emit("LayerNormalization", [moved, *names], attributes)
    export.result("Transpose", [normal], {"perm": [order.index(i) for i in range(rank)]})


@exports_op("group_norm")
def _group_norm(export: OpExport) -> None:
    dims, groups = export.dims(), export.attributes["groups"]
    epsilon = {"epsilon": float(export.attributes["eps"])}
    channels = export.inputs[0].shape[1]
    if groups == channels and len(dims) > 2:
        export.result("InstanceNormalization", [export.name(0), export.name(1), export.name(2)], epsilon)
        return
    if export.opset >= 21:
        names = [export.name(i) for i in range(3)]
        export.result("GroupNormalization", names, epsilon | {"num_groups": groups})
        return
    grouped_channels = export.emit("Reshape", [export.name(0), export.integers([0, groups, -1])])
    dtype = export.inputs[0].dtype
    ones, zeros = export.constant(np.ones(groups, dtype)), export.constant(np.zeros(groups, dtype))
    normal = export.emit("InstanceNormalization", [grouped_channels, ones, zeros], epsilon)
    whole = [0 if isinstance(n, BatchMultiple) else n for n in dims]
    normal = export.emit("Reshape", [normal, export.integers(whole)])
    along = (channels, *(1,) * (len(dims) - 2))
    for index, op in ((1, "Mul"), (2, "Add")):
        array = export.walker.known_array(export.inputs[index])
        assert array is not None
        name = export.constant(array.reshape(along), f"{export.scope}/{'gamma' if op == 'Mul' else 'beta'}")
        if op == "Add":
            export.result(op, [normal, name])
        else:
            normal = export.emit(op, [normal, name])
