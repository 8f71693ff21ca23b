"""Group normalization in both layouts. Sums over each channel's elements go to the thread's scratch memory, are added
over each group, and become coefficients of the channel.

With channels last the lanes of vectors are channels; in the plain layout they are a channel's elements. A work item is
some whole groups of one sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from prototorch.engine.backends.capabilities import register_channels_last
from prototorch.engine.backends.cpu.native.cpu_features import vector_lanes
from prototorch.engine.backends.cpu.native.ir_builder import Int64, KernelBuilder, Num
from prototorch.engine.backends.cpu.native.kernel_api import CHANNELS_LAST, TaskList, kernel_code, native_kernel
from prototorch.engine.backends.cpu.native.kernels.common.types import Attrs, Mask, Specs
from prototorch.engine.backends.cpu.native.kernels.norm.group_stats import (
    CENTER,
    ITEM_CHANNELS,
    NORMAL_MEAN,
    SCALE,
    SCRATCH_ROWS,
    SHIFT,
    SUMS,
    GroupItem,
    GroupNormShape,
)
from prototorch.engine.backends.cpu.native.thread_pool import ParallelTask
from prototorch.spec import Spec


def _forward(k: KernelBuilder, p: GroupNormShape) -> None:
    x, gamma, beta, y = (k.pointer(i) for i in range(4))
    with k.range(k.first, k.last) as number:
        item = GroupItem(k, p, number)
        item.statistics(x)
        scale, shift = item.scratch(SCALE), item.scratch(SHIFT)

        def coefficients(i: Int64, mask: Mask) -> None:
            g, at = gamma.load(item.channel + i, k.lanes, mask), item.channel + i
            shift.store(beta.load(at, k.lanes, mask) - shift.load(i, k.lanes, mask) * g, i, mask)
            scale.store(scale.load(i, k.lanes, mask) * g, i, mask)

        item.for_each_vector(coefficients)
        item.store_map(
            [x], [item.scratch(CENTER), scale, shift], y, lambda n, own: k.fma(n[0] - own[0], own[1], own[2])
        )


def _backward(k: KernelBuilder, p: GroupNormShape) -> None:
    """Arguments: g, x, gamma, dx; each work item's parts of the gradients of gamma and beta go to shared scratch
    memory."""
    g, x, gamma, dx = (k.pointer(i) for i in range(4))
    with k.range(k.first, k.last) as number:
        item = GroupItem(k, p, number)
        item.statistics(x)
        centre, scale, normal_mean, level = (item.scratch(r) for r in (CENTER, SCALE, NORMAL_MEAN, SHIFT))
        sum_of_grads, sum_of_products = item.scratch(SUMS), item.scratch(SUMS + 1)

        def weight_grad_terms(values: Any, factors: Any) -> list[Num]:
            return [values[0], values[0] * k.fma(values[1] - factors[0], factors[1], -factors[2])]

        item.sum_channels([g, x], [centre, scale, level], weight_grad_terms, 2, p.positions)
        sums = k.shared.as_type("float32") + (item.sample * (2 * p.channels) + item.channel)

        def store_weighted(i: Int64, mask: Mask) -> None:
            by_beta, by_gamma = sum_of_grads.load(i, k.lanes, mask), sum_of_products.load(i, k.lanes, mask)
            sums.store(by_gamma, i, mask)
            sums.store(by_beta, i + p.channels, mask)
            factors = gamma.load(item.channel + i, k.lanes, mask)
            sum_of_grads.store(by_beta * factors, i, mask)
            sum_of_products.store(by_gamma * factors, i, mask)

        item.for_each_vector(store_weighted)

        def means(first: Int64, total: Any, put: Any) -> None:
            mean_grad, mean_product = total(sum_of_grads), total(sum_of_products)
            put(SUMS, mean_grad)
            put(NORMAL_MEAN, mean_product)

        item.for_each_group(p.positions, means)

        def value(n: Any, factors: Any) -> Num:
            centre, factor, low, weight, mean_grad, mean_product = factors
            normal = k.fma(n[1] - centre, factor, -low)
            return k.fma(-normal, mean_product, k.fma(n[0], weight, -mean_grad)) * factor

        item.store_map([g, x], [centre, scale, level, gamma + item.channel, sum_of_grads, normal_mean], dx, value)


def _sum_weight_grads(k: KernelBuilder, p: GroupNormShape) -> None:
    """Sum the gradients of gamma and beta over all samples, in order. Work items are vectors of channels."""
    outputs, shares = (k.pointer(0), k.pointer(1)), k.shared.as_type("float32")
    with k.range(k.first, k.last) as item:
        i = item * k.lanes
        mask = k.mask((p.channels - i).minimum(k.lanes), k.lanes)
        for position, y in enumerate(outputs):
            total = k.variable(k.zero(k.lanes))
            with k.range(p.samples) as sample:
                at = (sample * 2 + position) * p.channels + i
                total.value = total.value + shares.load(at, k.lanes, mask)
            y.store(total.value, i, mask)


def _group_norm_shape(x: Spec, others: Sequence[Spec], attrs: Attrs) -> GroupNormShape | None:
    if any((s.shape, s.layout) != (x.shape, x.layout) for s in others):
        return None
    n, c = x.shape[:2]
    size, positions = c // attrs["groups"], prod(x.shape[2:])
    last = x.layout == CHANNELS_LAST or positions == 1
    block = size
    if last:  # whole groups of some vectors of channels: several work items a sample
        block = min((b for b in range(size, c + 1, size) if c % b == 0 and b >= ITEM_CHANNELS), default=c)
    return GroupNormShape(n, c, positions, size, block, last, attrs["eps"])


@native_kernel("group_norm")
def group_norm(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """(x - mean) / deviation * gamma + beta, over each group."""
    p = _group_norm_shape(ins[0], outs, attrs)
    if p is None or any(s.dtype != "float32" for s in ins):
        return None
    kernel, local_bytes = kernel_code(_forward, p), 4 * SCRATCH_ROWS * p.scratch_stride
    return TaskList(lambda i, o: [ParallelTask(kernel.address, (*i, *o), p.items, p.grain_size, local_bytes)])


@native_kernel("group_norm_grad")
def group_norm_grad(ins: Specs, outs: Specs, attrs: Attrs) -> TaskList | None:
    """The gradients of x, gamma and beta."""
    p = _group_norm_shape(ins[1], (ins[0], outs[0]), attrs)
    if p is None or any(s.dtype != "float32" for s in ins):
        return None
    kernel, sum_grads, local_bytes, shared_bytes = (
        kernel_code(_backward, p),
        kernel_code(_sum_weight_grads, p),
        4 * SCRATCH_ROWS * p.scratch_stride,
        4 * 2 * p.channels * p.samples,
    )
    vectors = -(-p.channels // vector_lanes("float32"))
    return TaskList(
        lambda i, o: [
            ParallelTask(kernel.address, (*i, o[0]), p.items, p.grain_size, local_bytes, shared_bytes),
            ParallelTask(sum_grads.address, tuple(o[1:]), vectors, vectors, 0, shared_bytes),
        ]
    )


register_channels_last("native", "follows", "group_norm", ins=(0,), outs=(0,))
register_channels_last("native", "follows", "group_norm_grad", ins=(0, 1), outs=(0,))
