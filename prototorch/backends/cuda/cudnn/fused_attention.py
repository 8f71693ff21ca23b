"""Multi-head attention by cuDNN's fused engines (FlashAttention; Dao et al., 2022), for 16-bit dtypes: the weights
[T, S] are not written. The gradient runs the forward engine again for its statistics. Other dtypes use products and the
masked softmax of `attention`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from prototorch.backends.cuda.cudnn.graph_desc import GraphDesc, TensorDesc, tensor_desc
from prototorch.backends.cuda.cudnn.graph_kernel import make_graph_kernel
from prototorch.backends.cuda.kernels.elementwise import elementwise_launches
from prototorch.backends.cuda.kernels.launch import (
    InputArg,
    LaunchSequence,
    OutputArg,
    contiguous_strides,
    current_device,
)
from prototorch.backends.registry import KernelFn, kernel
from prototorch.spec import Spec

Specs = tuple[Spec, ...]
_MASKED_SCORE = {"float16": -3e4, "bfloat16": -1e9}  # added to the score of a masked key


def _heads_first_desc(spec: Spec) -> TensorDesc:
    """[N, T, H, D] in memory as cuDNN's [N, H, T, D]."""
    n, t, h, d = spec.shape
    return tensor_desc(spec, (n, h, t, d), (t * h * d, d, h * d, 1))


class _KernelSteps:
    """Kernels one after another, each with its own arguments."""

    family = "cudnn"

    def __init__(self, *steps: tuple[KernelFn, Sequence[Any], Sequence[Any]]):
        self.steps = steps

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run all."""

        def array(a: Any) -> Any:
            return inputs[a.index] if isinstance(a, InputArg) else outputs[a.index] if isinstance(a, OutputArg) else a

        for runner, ins, outs in self.steps:
            runner([array(a) for a in ins], [array(a) for a in outs])


class _AttentionGraphs:
    """The common part of forward and backward: the tensors, and the conversion of the mask to a bias."""

    def __init__(self, q: Spec, k: Spec, v: Spec, masks: Specs, attrs: dict[str, Any]):
        self.specs, self.masks = (q, k, v), masks
        specs = (q, k, v, *masks)
        scale = attrs.get("scale")
        causal = bool(attrs.get("causal", False))
        self.attrs = (("scale", scale if scale is not None else 1 / math.sqrt(q.shape[-1])), ("causal", causal))
        same_dtype = len({s.dtype for s in self.specs}) == 1 and q.dtype in _MASKED_SCORE
        self.fits = same_dtype and len(masks) < 2 and all(not s.layout and s.size for s in specs)
        self.fits = self.fits and (not causal or q.shape[1] == k.shape[1])
        self.ports: list[tuple[str, TensorDesc]] = [
            (n, _heads_first_desc(s)) for n, s in zip("qkv", self.specs, strict=True)
        ]
        self.bias: Any = None
        self.mask_launch: LaunchSequence | None = None
        if self.fits and masks:
            self._mask(masks[0])

    def _mask(self, mask: Spec) -> None:
        kind = self.specs[0].dtype
        shape = (1,) * (4 - mask.ndim) + mask.shape
        bias_spec = Spec(shape, kind)
        program = (("where", (("in", 0), ("const", 0.0, kind), ("const", _MASKED_SCORE[kind], kind)), ()),)
        self.mask_launch = elementwise_launches(program, (("node", 0, 0),), (Spec(shape, "bool"),), (bias_spec,))
        self.fits = self.mask_launch is not None
        self.bias = current_device().empty(shape, kind)
        self.ports.append(("bias", tensor_desc(bias_spec, shape, contiguous_strides(bias_spec))))

    def steps(self, mask_index: int) -> list[tuple[KernelFn, Sequence[Any], Sequence[Any]]]:
        """The conversion of the mask; ``mask_index`` is its index among the inputs."""
        return [] if self.mask_launch is None else [(self.mask_launch, [InputArg(mask_index)], [self.bias])]

    def forward(self, o: Spec, statistics: bool) -> Any:
        """The plan of the forward engine as a runner of [q, k, v, (bias)] to [o, (stats)]."""
        n, t, h, _ = self.specs[0].shape
        tensors = [*self.ports, ("o", _heads_first_desc(o))]
        bindings: dict[str, Any] = {"q": InputArg(0), "k": InputArg(1), "v": InputArg(2), "o": OutputArg(0)}
        if self.bias is not None:
            bindings["bias"] = InputArg(3)
        if statistics:
            tensors.append(("stats", TensorDesc((n, h, t, 1), (h * t, t, 1, 1), "float32")))
            bindings["stats"] = OutputArg(1)
        outputs = ("o", "stats") if statistics else ("o",)
        return make_graph_kernel(GraphDesc("sdpa", tuple(tensors), outputs, self.attrs), self.ins, bindings)

    @property
    def ins(self) -> Specs:
        """The specs of the engine's inputs."""
        extra = () if self.bias is None else (Spec(tuple(self.bias.shape), self.specs[0].dtype),)
        return (*self.specs, *extra)


@kernel("cuda", "attention_heads")
def attention_heads(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """The forward engine, where no weights are dropped."""
    if attrs.get("rate"):
        return None
    q, k, v, *masks = ins
    heads = _AttentionGraphs(q, k, v, tuple(masks), attrs)
    forward = heads.forward(outs[0], False) if heads.fits else None
    if forward is None:
        return None
    operands = [InputArg(0), InputArg(1), InputArg(2), *([] if heads.bias is None else [heads.bias])]
    return _KernelSteps(*heads.steps(3), (forward, operands, [OutputArg(0)]))


@kernel("cuda", "attention_heads_grad")
def attention_heads_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """The forward engine for its statistics, then the backward one; as above."""
    if attrs.get("rate"):
        return None
    g, q, k, v, *masks = ins
    heads = _AttentionGraphs(q, k, v, tuple(masks), attrs)
    if not heads.fits or g.dtype != q.dtype:
        return None
    n, t, h, _ = q.shape
    tensors = [*heads.ports, ("o", _heads_first_desc(g)), ("g", _heads_first_desc(g))]
    tensors.append(("stats", TensorDesc((n, h, t, 1), (h * t, t, 1, 1), "float32")))
    tensors += [(f"d{name}", _heads_first_desc(s)) for name, s in zip("qkv", (q, k, v), strict=True)]
    names = [name for name, _ in tensors]
    input_names = [name for name in names if name not in ("dq", "dk", "dv")]
    bindings: dict[str, Any] = {name: InputArg(i) for i, name in enumerate(input_names)}
    bindings.update({"dq": OutputArg(0), "dk": OutputArg(1), "dv": OutputArg(2)})
    grad_attrs = (*heads.attrs, ("deterministic", current_device().deterministic))
    request = GraphDesc("sdpa_backward", tuple(tensors), ("dq", "dk", "dv"), grad_attrs)
    stats = Spec((n, h, t, 1))
    backward = make_graph_kernel(request, (*heads.ins, g, g, stats), bindings)
    forward = heads.forward(g, True)
    if backward is None or forward is None:
        return None
    device = current_device()
    o, stats_buffer = device.empty(g.shape, g.dtype), device.empty(stats.shape, stats.dtype)
    operands = [InputArg(1), InputArg(2), InputArg(3), *([] if heads.bias is None else [heads.bias])]
    return _KernelSteps(
        *heads.steps(4),
        (forward, operands, [o, stats_buffer]),
        (backward, [*operands, o, InputArg(0), stats_buffer], [OutputArg(0), OutputArg(1), OutputArg(2)]),
    )
