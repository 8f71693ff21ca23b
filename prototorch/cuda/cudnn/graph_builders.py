"""Builders of cuDNN graphs, one for each kind. A builder is given cuDNN's module, an empty graph and the description;
it returns the graph's tensors by name.

Arithmetic is in float, whatever the dtype. The epilogue of a convolution is add, bias, activation in this order, which
the fast precompiled engines support.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.cuda.cudnn.graph_desc import GraphDesc, TensorDesc

__all__ = ["BUILDERS", "CUDNN_TYPES"]

CudnnTensors = dict[str, Any]
GraphBuilder = Callable[[Any, Any, GraphDesc], CudnnTensors]
#: NumPy's name of a dtype -> cuDNN's
CUDNN_TYPES = {
    "float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF", "bfloat16": "BFLOAT16", "int32": "INT32",
    "bool": "BOOLEAN",
}  # fmt: skip


def _tensor(module: Any, graph: Any, name: str, tensor: TensorDesc) -> Any:
    kind = getattr(module.data_type, CUDNN_TYPES[tensor.dtype])
    return graph.tensor(name=name, dim=list(tensor.dims), stride=list(tensor.strides), data_type=kind)


def _set_output(module: Any, tensor: Any, port: TensorDesc) -> Any:
    kind = getattr(module.data_type, CUDNN_TYPES[port.dtype])
    return tensor.set_output(True).set_data_type(kind).set_dim(list(port.dims)).set_stride(list(port.strides))


def _window_options(desc: GraphDesc) -> dict[str, Any]:
    attrs = dict(desc.attrs)
    return {
        "pre_padding": [a for a, _ in attrs["pads"]],
        "post_padding": [b for _, b in attrs["pads"]],
        "stride": list(attrs["strides"]),
        "dilation": list(attrs["dilation"]),
    }


def conv(module: Any, graph: Any, desc: GraphDesc) -> CudnnTensors:
    """x, w and perhaps add (of y's shape), bias [1, F, 1, ...]; attr relu; gives y."""
    t = {name: _tensor(module, graph, name, p) for name, p in desc.tensors if name != "y"}
    y = graph.conv_fprop(image=t["x"], weight=t["w"], **_window_options(desc))
    if "add" in t:
        y = graph.add(a=y, b=t["add"])
    if "bias" in t:
        y = graph.bias(input=y, bias=t["bias"])
    if dict(desc.attrs).get("relu"):
        y = graph.relu(input=y)
    return {**t, "y": _set_output(module, y, desc.tensor("y"))}


def conv_input_grad(module: Any, graph: Any, desc: GraphDesc) -> CudnnTensors:
    """g, w; gives dx."""
    t = {name: _tensor(module, graph, name, p) for name, p in desc.tensors if name != "dx"}
    dx = graph.conv_dgrad(loss=t["g"], filter=t["w"], **_window_options(desc))
    return {**t, "dx": _set_output(module, dx, desc.tensor("dx"))}


def conv_weight_grad(module: Any, graph: Any, desc: GraphDesc) -> CudnnTensors:
    """x, g; gives dw."""
    t = {name: _tensor(module, graph, name, p) for name, p in desc.tensors if name != "dw"}
    dw = graph.conv_wgrad(image=t["x"], loss=t["g"], **_window_options(desc))
    return {**t, "dw": _set_output(module, dw, desc.tensor("dw"))}


def matmul(module: Any, graph: Any, desc: GraphDesc) -> CudnnTensors:
    """a [batch, m, k], b [batch, k, n]; gives y [batch, m, n]."""
    t = {name: _tensor(module, graph, name, p) for name, p in desc.tensors if name != "y"}
    y = graph.matmul(A=t["a"], B=t["b"])
    return {**t, "y": _set_output(module, y, desc.tensor("y"))}


def _causal_options(causal: str | None) -> dict[str, bool]:
    """causal: which corner of [T, S] the border of the visible keys starts from; None without one."""
    return {"use_causal_mask": causal == "top_left", "use_causal_mask_bottom_right": causal == "bottom_right"}


def sdpa(module: Any, graph: Any, desc: GraphDesc) -> CudnnTensors:
    """q, k, v [N, H, T, D] and perhaps bias (added to the scores); gives o and perhaps stats."""
    attrs, output_names = dict(desc.attrs), ("o", "stats")
    t = {name: _tensor(module, graph, name, p) for name, p in desc.tensors if name not in output_names}
    extra = {"bias": t["bias"]} if "bias" in t else {}
    o, stats = graph.sdpa(
        name="attention",
        q=t["q"],
        k=t["k"],
        v=t["v"],
        generate_stats=desc.has_tensor("stats"),
        attn_scale=attrs["scale"],
        **_causal_options(attrs["causal"]),
        **extra,
    )
    t["o"] = _set_output(module, o, desc.tensor("o"))
    if desc.has_tensor("stats"):
        t["stats"] = _set_output(module, stats, desc.tensor("stats"))
    return t


def sdpa_backward(module: Any, graph: Any, desc: GraphDesc) -> CudnnTensors:
    """q, k, v, o, the gradient g of o, stats and perhaps bias; gives dq, dk, dv. The attribute ``deterministic`` is
    needed because the note NONDETERMINISTIC does not leave out an engine of attention."""
    attrs, output_names = dict(desc.attrs), ("dq", "dk", "dv")
    t = {name: _tensor(module, graph, name, p) for name, p in desc.tensors if name not in output_names}
    extra = {"bias": t["bias"]} if "bias" in t else {}
    gradients = graph.sdpa_backward(
        name="attention",
        q=t["q"],
        k=t["k"],
        v=t["v"],
        o=t["o"],
        dO=t["g"],
        stats=t["stats"],
        attn_scale=attrs["scale"],
        **_causal_options(attrs["causal"]),
        use_deterministic_algorithm=attrs["deterministic"],
        **extra,
    )
    for name, tensor in zip(output_names, gradients, strict=True):
        t[name] = _set_output(module, tensor, desc.tensor(name))
    return t


BUILDERS: dict[str, GraphBuilder] = {
    "conv": conv, "conv_input_grad": conv_input_grad, "conv_weight_grad": conv_weight_grad, "matmul": matmul,
    "sdpa": sdpa, "sdpa_backward": sdpa_backward,
}  # fmt: skip
