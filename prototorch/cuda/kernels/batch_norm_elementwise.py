"""Batch normalization fused with the elementwise ops that follow it: one kernel after the statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prototorch.cuda.kernels.batch_norm import (
    BATCH_STATISTICS,
    GIVEN_STATISTICS,
    NORM_PARAMS,
    NORMALIZE_EXPR,
    BatchNormGeometry,
)
from prototorch.cuda.kernels.channelwise import channelwise_source
from prototorch.cuda.kernels.elementwise import is_traceable, trace_program
from prototorch.cuda.kernels.launch import InputArg, LaunchSequence, OutputArg, WorkspaceArg, cuda_kernel
from prototorch.engine.backends.capabilities import register_fusion_role
from prototorch.ops.fused import OperandRef
from prototorch.spec import Spec

Specs = tuple[Spec, ...]


class _NormEpilogue:
    """What a group does after a batch norm: inputs and outputs that lie as x does, and the formula between them."""

    def __init__(self, x: Spec, ins: Specs, outs: Specs, attrs: dict[str, Any]):
        program, results = attrs["program"], attrs["outputs"]
        y, extras = ("node", 0, 0), sorted({r[1] for _, refs, _ in program[1:] for r in refs if r[0] == "in"})
        operand_index = {i: k for k, i in enumerate(extras)}

        def renumber(ref: OperandRef) -> OperandRef:
            if ref == y:
                return ("in", len(extras))
            if ref[0] == "in":
                return ("in", operand_index[ref[1]])
            return ("node", ref[1] - 1, *ref[2:]) if ref[0] == "node" else ref

        remaining = tuple((name, tuple(map(renumber, refs)), norm_attrs) for name, refs, norm_attrs in program[1:])
        at = [k for k, r in enumerate(results) if r not in (("node", 0, 1), ("node", 0, 2))]
        self.extras, self.at = extras, at
        self.statistics = [results.index(r) if r in results else None for r in (("node", 0, 1), ("node", 0, 2))]
        like = [*(ins[i] for i in extras), *(outs[k] for k in at)]
        self.traced = None
        if all((s.shape, s.layout) == (x.shape, x.layout) for s in like) and all(
            is_traceable(n) for n, _, _ in remaining
        ):
            self.traced = trace_program(
                remaining, tuple(renumber(results[k]) for k in at), (*(ins[i].dtype for i in extras), x.dtype)
            )
        self.ins, self.outs = [ins[i] for i in extras], [outs[k] for k in at]

    def text(self, x: Spec, vectors: Sequence[tuple[str, str]], last: bool) -> str:
        """The kernel ``normalise_then``; own: what it needs of a channel."""
        assert self.traced is not None
        lines, names = self.traced
        statements = [f"const A a{len(self.ins)} = {NORMALIZE_EXPR};", *(f"const {line}" for line in lines)]
        ins = [*((f"a{i}", s) for i, s in enumerate(self.ins)), ("seen", x)]
        return channelwise_source("normalise_then", NORM_PARAMS, vectors, ins, self.outs, statements, names, last)


@cuda_kernel("fused", layouts=True)
def batch_norm_elementwise(ins: Specs, outs: Specs, attrs: dict[str, Any]) -> LaunchSequence | None:
    """A batch norm and what follows it element by element, in one sweep after the statistics."""
    name, refs, norm_attrs = attrs["program"][0]
    if name not in ("batch_norm", "batch_norm_inference") or any(r[0] != "in" for r in refs):
        return None
    numbers = [r[1] for r in refs]
    x, gamma, beta, *statistics = (ins[i] for i in numbers)
    epilogue = _NormEpilogue(x, ins, outs, attrs)
    if epilogue.traced is None or gamma.dtype != beta.dtype or len({s.dtype for s in statistics}) > 1:
        return None
    wide = Spec((), "float64" if x.dtype == "float64" else "float32")
    means = [outs[k] for k in epilogue.statistics if k is not None]
    if len({m.dtype for m in means}) > 1:
        return None
    statistics_spec = means[0] if means else wide
    others = (*epilogue.ins, *epilogue.outs)
    c = BatchNormGeometry(x, gamma, statistics[0] if statistics else wide, dict(norm_attrs), statistics_spec, others)
    if not c.fits:
        return None
    c.source += epilogue.text(x, GIVEN_STATISTICS if statistics else BATCH_STATISTICS, c.channels_last)
    operands = [InputArg(i) for i in numbers]
    arrays = (*(InputArg(i) for i in epilogue.extras), operands[0], *(OutputArg(k) for k in epilogue.at))
    if statistics:
        return LaunchSequence(c.elements_launch("normalise_then", *operands[1:], c.eps, *arrays))
    vectors = WorkspaceArg(c.partial_bytes), WorkspaceArg(c.partial_bytes + c.vector_bytes)
    unused_statistics = WorkspaceArg(c.partial_bytes + 2 * c.vector_bytes)  # for statistics that nobody asks for
    first = [OutputArg(k) if k is not None else unused_statistics for k in epilogue.statistics]
    if None in epilogue.statistics and means and statistics_spec.dtype != wide.dtype:
        return None
    return LaunchSequence(
        *c.statistics_launches(operands[0], operands[1], *first),
        c.elements_launch("normalise_then", *operands[1:], *vectors, c.eps, *arrays),
        workspace_bytes=c.partial_bytes + 3 * c.vector_bytes,
    )


register_fusion_role("cuda", "anchor", "batch_norm", "batch_norm_inference")
