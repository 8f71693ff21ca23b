"""The weights of attention as a result of their own: for dropout, or where the caller asks for them."""

from __future__ import annotations

from prototorch.engine.backends.cpu.native.ir_builder import KernelBuilder
from prototorch.engine.backends.cpu.native.kernel_api import TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Specs
from prototorch.engine.backends.cpu.native.kernels.gemm.attention import (
    AttentionScores,
    AttentionShape,
    attention_shape,
    block_rows,
)
from prototorch.engine.backends.cpu.native.kernels.gemm.gemm_microkernel import MatrixView, transpose_into
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec


def _store_weights(k: KernelBuilder, p: AttentionShape) -> None:
    """q [n, h, t, d], keys [n, h, s, d], out [n, h, t, s]. Work items are blocks of queries of one head."""
    q, key, out = k.pointer(0), k.pointer(1), k.pointer(2 + len(p.masks))
    masks = [k.pointer(2 + i, "bool") for i in range(len(p.masks))]
    keys, weights = k.local, k.local + p.d * p.score_stride
    scores = AttentionScores(k, p, masks, keys, weights)
    blocks = -(-p.t // p.query_block)
    with k.range(k.first, k.last) as item:
        one, first = item // blocks, (item % blocks) * p.query_block
        transpose_into(k, key + one * (p.s * p.d), p.s, p.d, p.d, keys, p.score_stride)
        rows = block_rows(p, first)
        visible = scores.visible_keys(first, rows)
        scores.multiply(MatrixView(q + (one * p.t + first) * p.d, p.d, 1), keys, p.d, rows, visible, weights)
        with k.range(rows) as row:
            factor = k.num(1.0) / scores.softmax(row, first + row, one // p.h, one % p.h, visible)[0]
            line, out_line = weights + row * p.score_stride, out + (one * p.t + first + row) * p.s
            k.for_each_vector(visible, lambda i, mask: out_line.store(line.load(i, k.lanes) * factor, i, mask))
            if p.skips_future_keys:  # keys that no query of the block may see
                rest = out_line + visible
                k.for_each_vector(p.s - visible, lambda i, mask: rest.store(k.zero(k.lanes), i, mask))


@native_kernel("attention_weights")
def attention_weights(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """softmax(q k^T scale)."""
    q, k, *masks = ins
    head_specs = [Spec((s.shape[0], s.shape[2], s.shape[1], s.shape[3]), s.dtype) for s in (q, k)]
    p = attention_shape((*head_specs, head_specs[1], *masks), attrs, False)
    if p is None:
        return None
    kernel, items = kernel_code(_store_weights, p), p.n * p.h * -(-p.t // p.query_block)
    local = 4 * (p.d + p.query_block) * p.score_stride
    grain = items if p.n * p.h * p.t * p.s * p.d < 1 << 16 else 1
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), items, grain, local)])
