"""Ops that index by arrays along several axes, and ops that sort."""

from __future__ import annotations

from math import prod
from typing import Any

from prototorch.errors import UsageError
from prototorch.interop.onnx.export.walker import OpExport, exports_op, onnx_dtype
from prototorch.interop.symbolic_batch import BatchMultiple, Dim
from prototorch.ops.advanced_indexing import front_order, inverse_order, result_order

_SCATTER = {"set": "none", "sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _as_int64(export: OpExport, index: int) -> str:
    if export.inputs[index].dtype == "int64":
        return export.name(index)
    return export.emit("Cast", [export.name(index)], {"to": onnx_dtype("int64")})


def _rows(export: OpExport, first: int) -> tuple[str, int]:
    """The rows of the flattened indexed axes, from the indices that follow input ``first``; their number of axes."""
    dims, axes = export.dims(), export.attributes["axes"]
    rows = _as_int64(export, first)
    for k, axis in enumerate(axes[1:], first + 1):
        size = dims[axis]
        if isinstance(size, BatchMultiple):
            raise UsageError(f"the op {export.node.op.name} cannot be written to ONNX: it indexes the batch axis")
        rows = export.emit("Add", [export.emit("Mul", [rows, export.integers([size])]), _as_int64(export, k)])
    return rows, max(len(export.dims(k)) for k in range(first, first + len(axes)))


def _permuted(export: OpExport, name: str, order: tuple[int, ...]) -> str:
    return name if order == tuple(sorted(order)) else export.emit("Transpose", [name], {"perm": list(order)})


def _flat_front(export: OpExport) -> tuple[str, tuple[Dim, ...]]:
    """x with the indexed axes in front and flattened to one; the shape in front of that."""
    axes, dims = export.attributes["axes"], export.dims()
    order = front_order(len(dims), axes)
    moved = tuple(dims[a] for a in order)
    name = _permuted(export, export.name(0), order)
    if len(axes) == 1:
        return name, moved
    first, rest = moved[: len(axes)], moved[len(axes) :]
    total = -1 if any(isinstance(n, BatchMultiple) for n in first) else prod(n for n in first if isinstance(n, int))
    return export.emit("Reshape", [name, export.shape((total, *rest))]), moved


@exports_op("advanced_index")
def _advanced_index(export: OpExport) -> None:
    axes, ndim = export.attributes["axes"], len(export.dims())
    if len(axes) == 1:
        export.result("Gather", [export.name(0), _as_int64(export, 1)], {"axis": axes[0]})
        return
    table, _ = _flat_front(export)
    rows, num_axes = _rows(export, 1)
    rows_of_index = export.emit("Gather", [table, rows], {"axis": 0})
    export.result("Transpose", [rows_of_index], {"perm": list(result_order(ndim, num_axes, axes))})


@exports_op("index_put", since=18)
def _index_put(export: OpExport) -> None:
    axes, ndim = export.attributes["axes"], len(export.dims())
    table, moved = _flat_front(export)
    rows, num_axes = _rows(export, 2)
    values = _permuted(export, export.name(1), inverse_order(result_order(ndim, num_axes, axes)))
    column = export.emit("Unsqueeze", [rows, export.integers([-1])])
    reduction = _SCATTER[export.attributes_or_defaults()["reduce"]]
    out = export.emit("ScatterND", [table, column, values], {"reduction": reduction})
    if len(axes) > 1:
        out = export.emit("Reshape", [out, export.shape(moved)])
    export.result("Transpose", [out], {"perm": list(inverse_order(front_order(ndim, axes)))})


@exports_op("sort")
def _sort(export: OpExport) -> None:
    size: Any = export.dims()[-1]
    if isinstance(size, BatchMultiple):
        raise UsageError("the op sort cannot be written to ONNX: it sorts along the batch axis")
    values, indices = export.node.outputs
    names = [
        export.walker.output_name(v, f"{export.scope}/{what}")
        for v, what in ((values, "TopK"), (indices, "TopK/indices"))
    ]
    largest = int(export.attributes_or_defaults()["descending"])
    export.builder.emit("TopK", [export.name(0), export.integers([size])], names, export.scope, {"largest": largest})


@exports_op("searchsorted", since=16)
def _searchsorted(export: OpExport) -> None:
    elements = export.emit("Unsqueeze", [export.name(0), export.integers([-2])])
    values = export.emit("Unsqueeze", [export.name(1), export.integers([-1])])
    op = "GreaterOrEqual" if export.attributes_or_defaults()["side"] == "left" else "Greater"
    before = export.emit(
        "Cast", [export.emit("Not", [export.emit(op, [elements, values])])], {"to": onnx_dtype("int64")}
    )
    export.result("ReduceSum", [before, export.integers([-1])], {"keepdims": 0})
