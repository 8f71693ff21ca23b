"""Multi-head attention by cuDNN's fused engines (FlashAttention; Dao et al., 2022), for 16-bit dtypes: the weights
[T, S] are not written. In a plan the forward engine saves the statistics of the rows for the gradient; the gradient
alone runs the forward engine again for them. Other dtypes use products and the masked softmax of `attention`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from prototorch.cuda.cudnn.graph_desc import GraphDesc, TensorDesc, tensor_desc
from prototorch.cuda.cudnn.graph_kernel import make_graph_kernel
from prototorch.cuda.kernels.elementwise import elementwise_launches
from prototorch.cuda.kernels.launch import (
    InputArg,
    LaunchSequence,
    OutputArg,
    contiguous_strides,
    current_device,
)
from prototorch.engine.backends.registry import KernelFn, kernel
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
        """Run the kernels in the order in which they stand."""

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
        t, s = q.shape[1], k.shape[1]
        # the last query sees the last key, as in the op
        causal = ("top_left" if t == s else "bottom_right") if attrs.get("causal") else None
        self.attrs = (("scale", scale if scale is not None else 1 / math.sqrt(q.shape[-1])), ("causal", causal))
        same_dtype = len({spec.dtype for spec in self.specs}) == 1 and q.dtype in _MASKED_SCORE
        self.fits = same_dtype and len(masks) < 2 and all(not spec.layout and spec.size for spec in specs)
        # of queries without any key cuDNN returns zeros, the op the mean of the values
        self.fits = self.fits and (causal is None or t <= s)
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

    def operands(self, first: int) -> list[Any]:
        """The engine's inputs q, k, v, (bias); ``first`` is the index of q among the op's."""
        return [InputArg(first), InputArg(first + 1), InputArg(first + 2), *([] if self.bias is None else [self.bias])]

    def forward(self, o: Spec, saves_stats: bool) -> Any:
        """The plan of the forward engine as a runner of `operands` to [o, (stats)]; None where there is none."""
        outputs = {"o": _heads_first_desc(o)} | ({"stats": self._stats_desc} if saves_stats else {})
        return self._graph_kernel("sdpa", {}, outputs, self.attrs)

    def backward(self, g: Spec) -> Any:
        """The plan of the backward engine as a runner of [*operands, o, g, stats] to [dq, dk, dv]; None where there is
        none."""
        if g.dtype != self.specs[0].dtype or g.layout:
            return None
        inputs = {"o": _heads_first_desc(g), "g": _heads_first_desc(g), "stats": self._stats_desc}
        outputs = {f"d{name}": _heads_first_desc(s) for name, s in zip("qkv", self.specs, strict=True)}
        # no note bars the engine that is not deterministic
        attrs = (*self.attrs, ("deterministic", current_device().deterministic))
        return self._graph_kernel("sdpa_backward", inputs, outputs, attrs)

    def _graph_kernel(
        self,
        kind: str,
        inputs: dict[str, TensorDesc],
        outputs: dict[str, TensorDesc],
        attrs: tuple[tuple[str, Any], ...],
    ) -> Any:
        tensors = dict(self.ports) | inputs
        bindings: dict[str, Any] = {name: InputArg(i) for i, name in enumerate(tensors)}
        bindings |= {name: OutputArg(i) for i, name in enumerate(outputs)}
        desc = GraphDesc(kind, (*tensors.items(), *outputs.items()), tuple(outputs), attrs)
        specs = [Spec(tensor.dims, tensor.dtype) for tensor in tensors.values()]
        return make_graph_kernel(desc, specs, bindings)

    @property
    def stats(self) -> Spec:
        """The statistics of the rows."""
        n, t, h, _ = self.specs[0].shape
        return Spec((n, h, t))

    @property
    def _stats_desc(self) -> TensorDesc:
        n, h, t = self.stats.shape
        return tensor_desc(self.stats, (n, h, t, 1), (h * t, t, 1, 1))


@kernel("cuda", "attention_heads")
def attention_heads(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """The forward engine, where no weights are dropped."""
    if attrs.get("rate"):
        return None
    q, k, v, *masks = ins
    heads = _AttentionGraphs(q, k, v, tuple(masks), attrs)
    forward = heads.forward(outs[0], len(outs) > 1) if heads.fits else None
    if forward is None:
        return None
    return _KernelSteps(*heads.steps(3), (forward, heads.operands(0), list(map(OutputArg, range(len(outs))))))


#: also writes the statistics [N, H, T] of the rows
kernel("cuda", "attention_heads_with_stats")(attention_heads)


@kernel("cuda", "attention_heads_with_stats_grad")
def attention_heads_with_stats_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """The backward engine, which reads what the forward engine has saved."""
    if attrs.get("rate"):
        return None
    g, q, k, v, *masks, _, _ = ins
    heads = _AttentionGraphs(q, k, v, tuple(masks), attrs)
    backward = heads.backward(g) if heads.fits else None
    if backward is None:
        return None
    saved = [InputArg(len(ins) - 2), InputArg(0), InputArg(len(ins) - 1)]
    return _KernelSteps(*heads.steps(4), (backward, [*heads.operands(1), *saved], list(map(OutputArg, range(3)))))


@kernel("cuda", "attention_heads_grad")
def attention_heads_grad(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> KernelFn | None:
    """The forward engine for its statistics, then the backward one; as above."""
    if attrs.get("rate"):
        return None
    g, q, k, v, *masks = ins
    heads = _AttentionGraphs(q, k, v, tuple(masks), attrs)
    backward = heads.backward(g) if heads.fits else None
    forward = None if backward is None else heads.forward(g, True)
    if backward is None or forward is None:
        return None
    device = current_device()
    o, stats = device.empty(g.shape, g.dtype), device.empty(heads.stats.shape, heads.stats.dtype)
    operands = heads.operands(1)
    return _KernelSteps(
        *heads.steps(4),
        (forward, operands, [o, stats]),
        (backward, [*operands, o, InputArg(0), stats], list(map(OutputArg, range(3)))),
    )
