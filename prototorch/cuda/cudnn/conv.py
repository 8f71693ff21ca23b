"""Convolution and its two gradients by cuDNN, in one to three dimensions, with groups, dilation and asymmetric padding.

Activations have the layout of the plan; weights keep theirs, and cuDNN converts them to the one its engines read. What
cuDNN refuses, or is not there for, the package's own kernels compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from prototorch.cuda.cudnn.context import get_context
from prototorch.cuda.cudnn.graph_desc import GraphDesc, TensorDesc, conv_tensor_desc, tensor_desc
from prototorch.cuda.cudnn.graph_kernel import GraphKernel, make_graph_kernel
from prototorch.cuda.cudnn.tensor_cores import needs_tensor_cores
from prototorch.cuda.kernels.conv import tiled_conv, tiled_conv_input_grad, tiled_conv_weight_grad
from prototorch.cuda.kernels.elementwise import elementwise_launches
from prototorch.cuda.kernels.epilogue import BiasReluEpilogue, build_epilogue, match_bias_relu
from prototorch.cuda.kernels.launch import InputArg, LaunchSequence, OutputArg, current_device
from prototorch.engine.backends.capabilities import register_channels_last, register_fusion_role
from prototorch.engine.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

Specs = tuple[Spec, ...]
_TYPES = ("float32", "float64", "float16", "bfloat16")


def _extra_spatial_dims(attrs: dict[str, Any]) -> int:
    return max(0, 2 - len(attrs["strides"]))


def _conv_attrs(attrs: dict[str, Any], **options: Any) -> tuple[tuple[str, Any], ...]:
    extra_dims = _extra_spatial_dims(attrs)
    values = {
        "strides": (*(1,) * extra_dims, *attrs["strides"]),
        "pads": (*((0, 0),) * extra_dims, *map(tuple, attrs["pads"])),
        "dilation": (*(1,) * extra_dims, *attrs["dilation"]),
    }
    return tuple({**values, **options}.items())


def _is_supported(attrs: dict[str, Any], *specs: Spec) -> bool:
    """Whether cuDNN's convolutions support these specs."""
    same_dtype = len({s.dtype for s in specs}) == 1 and specs[0].dtype in _TYPES
    return same_dtype and 1 <= len(attrs["strides"]) <= 3 and all(s.size for s in specs)


@kernel("cuda", "conv")
def conv(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """A convolution."""
    bindings = {"x": InputArg(0), "w": InputArg(1), "y": OutputArg(0)}
    return _conv(ins[0], ins[1], outs[0], attrs, ins, bindings) or tiled_conv(ins, outs, attrs)


def _conv(
    x: Spec,
    w: Spec,
    y: Spec,
    attrs: dict[str, Any],
    ins: Specs,
    bindings: dict[str, Any],
    extra: tuple[tuple[str, TensorDesc], ...] = (),
    relu: bool = False,
) -> GraphKernel | None:
    if not _is_supported(attrs, x, w, y):
        return None
    extra_dims = _extra_spatial_dims(attrs)
    tensors = (
        ("x", conv_tensor_desc(x, extra_dims)),
        ("w", conv_tensor_desc(w, extra_dims)),
        *extra,
        ("y", conv_tensor_desc(y, extra_dims)),
    )
    return make_graph_kernel(GraphDesc("conv", tensors, ("y",), _conv_attrs(attrs, relu=relu)), ins, bindings)


@kernel("cuda", "conv_input_grad")
def conv_input_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """The gradient of the input, and the transposed convolution."""
    g, w, dx = *ins, outs[0]
    if not _is_supported(attrs, g, w, dx):
        return None
    extra_dims = _extra_spatial_dims(attrs)
    tensors = (
        ("g", conv_tensor_desc(g, extra_dims)),
        ("w", conv_tensor_desc(w, extra_dims)),
        ("dx", conv_tensor_desc(dx, extra_dims)),
    )
    request = GraphDesc("conv_input_grad", tensors, ("dx",), _conv_attrs(attrs))
    kernel_fn = make_graph_kernel(request, ins, {"g": InputArg(0), "w": InputArg(1), "dx": OutputArg(0)})
    return kernel_fn or tiled_conv_input_grad(ins, outs, attrs)


@kernel("cuda", "conv_weight_grad")
def conv_weight_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """The gradient of the weights."""
    return _cudnn_weight_grad(ins, outs, attrs) or tiled_conv_weight_grad(ins, outs, attrs)


def _cudnn_weight_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> GraphKernel | None:
    """By cuDNN; where the gradient has another dtype it is cast afterwards."""
    x, g, dw = *ins, outs[0]
    if not _is_supported(attrs, x, g):
        return None
    extra_dims, result_spec = _extra_spatial_dims(attrs), Spec(dw.shape, x.dtype)
    tensors = (
        ("x", conv_tensor_desc(x, extra_dims)),
        ("g", conv_tensor_desc(g, extra_dims)),
        ("dw", conv_tensor_desc(result_spec, extra_dims)),
    )
    request = GraphDesc("conv_weight_grad", tensors, ("dw",), _conv_attrs(attrs))
    if result_spec.dtype == dw.dtype:
        return make_graph_kernel(request, ins, {"x": InputArg(0), "g": InputArg(1), "dw": OutputArg(0)})
    if get_context(current_device()) is None:
        return None
    gradient = current_device().empty(result_spec.shape, result_spec.dtype)
    cast = elementwise_launches(
        (("cast", (("in", 0),), (("dtype", dw.dtype),)),), (("node", 0, 0),), (result_spec,), (dw,)
    )
    if cast is None:
        return None
    # the cast reads the buffer in place of its input
    cast_launches = LaunchSequence(
        *(replace(o, args=tuple(gradient if a == InputArg(0) else a for a in o.args)) for o in cast.launches)
    )
    return make_graph_kernel(request, ins, {"x": InputArg(0), "g": InputArg(1), "dw": gradient}, cast_launches)


@kernel("cuda", "fused")
def fused_conv(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """A convolution with its epilogue: an addition, a bias and ReLU inside cuDNN, the rest in a kernel after it."""
    program, results = attrs["program"], attrs["outputs"]
    name, refs, anchor_attr_items = program[0]
    if name not in ANCHORS or any(r[0] != "in" for r in refs):
        return None
    anchor_attrs = dict(anchor_attr_items)
    operands = tuple(ins[r[1]] for r in refs)
    y = replace(outs[0], dtype=operands[0].dtype)
    epilogue = match_bias_relu(program, results, ins, y) if name == "conv" else None
    with_bias: GraphKernel | None = None
    if epilogue is not None and epilogue.bias is not None:
        with_bias = _with_bias(ins, outs[0], operands, [r[1] for r in refs], epilogue, anchor_attrs)
        if with_bias is not None and _is_suitable(with_bias):
            return with_bias
    group_epilogue = build_epilogue(attrs, ins, outs, y)
    anchor = None if group_epilogue is None else ANCHORS[name](operands, (y,), anchor_attrs)
    if group_epilogue is None or anchor is None or (with_bias is not None and not _is_suitable(anchor)):
        return with_bias
    return group_epilogue.attach_to(anchor, [r[1] for r in refs])


def _is_suitable(kernel_fn: Any) -> bool:
    """Whether cuDNN's engine has tensor cores where they count; where not, the convolution without its epilogue may
    have an engine that does."""
    plan = getattr(kernel_fn, "plan", None)  # the package's own convolution has none
    return plan is not None and (not needs_tensor_cores(plan.desc) or plan.uses_tensor_cores)


def _with_bias(
    ins: Specs,
    y: Spec,
    operands: Specs,
    operand_indices: Sequence[int],
    epilogue: BiasReluEpilogue,
    attrs: dict[str, Any],
) -> GraphKernel | None:
    assert epilogue.bias is not None
    extra: list[tuple[str, TensorDesc]] = []
    bindings: dict[str, Any] = {
        "x": InputArg(operand_indices[0]),
        "w": InputArg(operand_indices[1]),
        "y": OutputArg(0),
        "bias": InputArg(epilogue.bias),
    }
    if epilogue.add is not None:
        extra.append(("add", conv_tensor_desc(ins[epilogue.add], _extra_spatial_dims(attrs))))
        bindings["add"] = InputArg(epilogue.add)
    channels = y.shape[1]
    ones = (1,) * (y.ndim - 2 + _extra_spatial_dims(attrs))
    extra.append(
        ("bias", tensor_desc(ins[epilogue.bias], (1, channels, *ones), (channels, 1, *(channels,) * len(ones))))
    )
    x, w = operands
    return _conv(x, w, y, attrs, ins, bindings, tuple(extra), epilogue.relu)


ANCHORS = {"conv": conv, "conv_input_grad": conv_input_grad}
register_fusion_role("cuda", "anchor", *ANCHORS)
register_channels_last("cuda", "prefers", "conv", "conv_input_grad", ins=(0,), outs=(0,))
register_channels_last("cuda", "prefers", "conv_weight_grad", ins=(0, 1), outs=())
register_channels_last("cuda", "follows", "fused")
