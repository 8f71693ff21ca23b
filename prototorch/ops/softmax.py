"""Softmax, and the cross-entropy losses."""

from __future__ import annotations

from typing import Any

from prototorch.ops.activation import softplus
from prototorch.ops.core import Op
from prototorch.ops.elementwise import (
    cast,
    exp,
    full,
    greater_equal,
    isfinite,
    less,
    log,
    logical_and,
    stop_gradient,
    where,
    zeros_like,
)
from prototorch.ops.facts import Attrs, Specs, ValueBounds, axis_batched, flops_per_output, positions
from prototorch.ops.indexing import one_hot, take_along_axis
from prototorch.ops.operators import op_function
from prototorch.ops.reduce import max_, normalize_axes, sum_
from prototorch.ops.shape import reshape
from prototorch.spec import Spec


class Softmax(Op):
    """exp(x) / sum(exp(x)) along an axis."""

    inplace = {0: 0}
    derivatives = (lambda g, y, x, axis=-1: softmax_grad(g, y, axis=axis),)
    flops = flops_per_output(5)
    preserves_batch = axis_batched(-1)

    def infer_spec(self, x: Spec, axis: int = -1) -> Spec:
        normalize_axes(axis, x.ndim, self)
        return Spec(x.shape, x.dtype)

    def reference(self, xp: Any, x: Any, axis: int = -1) -> Any:
        e = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
        return e / xp.sum(e, axis=axis, keepdims=True)


class SoftmaxGrad(Op):
    """(g - sum(g * y)) * y."""

    inplace = {0: 0}

    def infer_spec(self, g: Spec, y: Spec, axis: int = -1) -> Spec:
        return Spec(g.shape, g.dtype)

    def decompose(self, g: Any, y: Any, axis: int = -1) -> Any:
        return (g - sum_(g * y, axis=axis, keepdims=True)) * y


class LogSoftmax(Op):
    """log(softmax(x)) along an axis, without overflow."""

    inplace = {0: 0}
    derivatives = (lambda g, y, x, axis=-1: g - exp(y) * sum_(g, axis=axis, keepdims=True),)
    flops = flops_per_output(5)
    preserves_batch = axis_batched(-1)

    def infer_spec(self, x: Spec, axis: int = -1) -> Spec:
        normalize_axes(axis, x.ndim, self)
        return Spec(x.shape, x.dtype)

    def reference(self, xp: Any, x: Any, axis: int = -1) -> Any:
        shifted = x - xp.max(x, axis=axis, keepdims=True)
        return shifted - xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True))


class SparseSoftmaxCrossEntropy(Op):
    """-log(softmax(logits)[label]): logits [..., classes], labels [...] of integers; returns [...].

    NaN for a label that is no class (the gradient treats it as none): labels that come from data are checked before.
    """

    derivatives = (lambda g, y, x, labels: sparse_softmax_cross_entropy_grad(g, x, labels), None)

    def infer_spec(self, x: Spec, labels: Spec) -> Spec:
        if labels.is_float:
            raise self.shape_error(f"expected integer labels, got {labels.dtype}")
        if x.shape[:-1] != labels.shape:
            expected = list(x.shape[:-1])
            raise self.shape_error(f"logits {list(x.shape)} need labels of shape {expected}, got {list(labels.shape)}")
        return Spec(labels.shape, x.dtype)

    def value_bounds(self, ins: Specs, attrs: Attrs) -> ValueBounds:
        return {1: positions(ins[0].shape[-1])}

    def decompose(self, x: Any, labels: Any) -> Any:
        is_class = logical_and(greater_equal(labels, 0), less(labels, x.shape[-1]))
        classes = reshape(where(is_class, labels, zeros_like(labels)), shape=(*labels.shape, 1))
        loss = -reshape(take_along_axis(log_softmax(x), classes), shape=tuple(labels.shape))
        invalid = full.apply_like(loss, shape=tuple(labels.shape), value=float("nan"), dtype=loss.dtype)
        return where(is_class, loss, invalid)


class SparseSoftmaxCrossEntropyGrad(Op):
    """(softmax(logits) - one hot of the label) * g."""

    inplace = {0: 1}

    def infer_spec(self, g: Spec, x: Spec, labels: Spec) -> Spec:
        return Spec(x.shape, x.dtype)

    def decompose(self, g: Any, x: Any, labels: Any) -> Any:
        one_hot_labels = one_hot(labels, classes=x.shape[-1], dtype=x.dtype)
        return (softmax(x) - one_hot_labels) * reshape(g, shape=(*g.shape, 1))


softmax, softmax_grad, log_softmax = Softmax(), SoftmaxGrad(), LogSoftmax()
sparse_softmax_cross_entropy = SparseSoftmaxCrossEntropy()
sparse_softmax_cross_entropy_grad = SparseSoftmaxCrossEntropyGrad()


@op_function
def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """log(sum(exp(x))), without overflow."""
    top = stop_gradient(max_(x, axis=axis, keepdims=True))
    top = where(isfinite(top), top, zeros_like(top))  # a row of -inf gives -inf, not NaN
    total = log(sum_(exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else sum_(total, axis=axis)


@op_function
def softmax_cross_entropy(logits: Any, targets: Any) -> Any:
    """-sum(targets * log(softmax(logits))) over the last axis; targets are distributions of the same shape."""
    return -sum_(log_softmax(logits) * cast(targets, dtype=logits.dtype), axis=-1)


@op_function
def sigmoid_cross_entropy(logits: Any, targets: Any) -> Any:
    """Binary cross entropy from logits, element by element: softplus(x) - x * target."""
    return softplus(logits) - logits * cast(targets, dtype=logits.dtype)
