"""A reduction fused with the elementwise ops before it: values are reduced while they are in registers, and only
those that are read elsewhere are written to memory."""

from __future__ import annotations

from typing import Any

from prototorch.engine.backends.capabilities import register_fusion_role
from prototorch.engine.backends.cpu.native.ir_builder import KernelBuilder, Num, UnsupportedError
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.elementwise import trace_program
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Index, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.reduce.reduce import plan_reduction, tasks_of_code
from prototorch.engine.backends.cpu.native.kernels.reduce.reducer import emit_reduction
from prototorch.engine.backends.cpu.native.kernels.reduce.reduction_tiling import ReductionTiling
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

_REDUCTIONS = ("sum", "mean")
_TYPES = ("float32", "int32", "uint8", "bool", "int64", "uint32")


def _reduce_traced(
    k: KernelBuilder,
    plan: ReductionTiling,
    name: str,
    last: bool,
    program: Any,
    source: Any,
    stored_refs: tuple[Any, ...],
    input_types: tuple[tuple[str, bool], ...],
    output_dtypes: tuple[str, ...],
) -> None:
    """Arguments: the inputs (dtypes, and whether each is full-size), the outputs ``stored_refs``, the result.
    ``source`` is the ref of what is reduced."""
    inputs = [k.pointer(i, dtype) for i, (dtype, _) in enumerate(input_types)]
    outputs = [k.pointer(len(inputs) + i, dtype) for i, dtype in enumerate(output_dtypes)]
    numbers = [None if full else p.load() for p, (_, full) in zip(inputs, input_types, strict=True)]
    work = trace_program(program, (source, *stored_refs))

    def read(at: Index, lanes: int, mask: Mask) -> Num:
        values = [p.load(at, lanes, mask) if n is None else n for p, n in zip(inputs, numbers, strict=True)]
        value, *others = work(k, values)
        for p, other in zip(outputs, others, strict=True):
            p.store(k.num(other).cast(p.dtype).splat(lanes), at, mask)
        return value.splat(lanes)

    emit_reduction(k, plan, name, "float32", k.pointer(len(inputs) + len(outputs)) if last else None, read)


@native_kernel("fused")
def fused_reduction(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """Elementwise ops and a sum at the end."""
    *lines, (name, operands, reduction_attrs) = attrs["program"]
    last, refs, source = len(lines), attrs["outputs"], operands[0]
    if name not in _REDUCTIONS or source[0] != "node" or ("node", last, 0) not in refs or not lines:
        return None
    if not all(getattr(OPS[line[0]], "elementwise", False) for line in lines):
        return None
    at = refs.index(("node", last, 0))
    stored_outputs = [i for i in range(len(outs)) if i != at]
    if dict(attrs.get("inplace", ())).get(at) is not None or outs[at].dtype != "float32":
        return None
    full = [s for s in (*ins, *(outs[i] for i in stored_outputs)) if s.size > 1]
    x = max(full, key=lambda s: s.size, default=None)
    if x is None or any((s.shape, s.layout) != (x.shape, x.layout) for s in full):
        raise UnsupportedError("an operand that is not full-size")
    if any(s.dtype not in _TYPES for s in (*ins, *outs)):
        raise UnsupportedError("dtypes other than float32, bool and integers")
    plan, count = plan_reduction(Spec(x.shape, "float32", x.layout), outs[at], dict(reduction_attrs).get("axis"))
    kernel = kernel_code(
        _reduce_traced,
        plan,
        name,
        plan.num_parts == 1,
        tuple(lines),
        source,
        tuple(refs[i] for i in stored_outputs),
        tuple((s.dtype, s.size > 1) for s in ins),
        tuple(outs[i].dtype for i in stored_outputs),
    )
    kernel.check_supported()
    tasks = tasks_of_code(kernel, plan, name, "float32", count)
    return TaskList(lambda i, o: tasks.bind(i, [*(o[j] for j in stored_outputs), o[at]]))


register_fusion_role("native", "tail", *_REDUCTIONS)
