"""Normalisations whose gradients compute again what they would otherwise read: a plan uses these ops where a backend
has kernels for them.

The slope of an activation after a batch normalisation is told from what the normalisation gave, which follows from its
input; the bases of a local response normalisation follow from its input as well.
"""

from __future__ import annotations

from typing import Any

from prototorch.ops.activation import relu, relu6, relu6_grad, relu_grad
from prototorch.ops.core import Op
from prototorch.ops.norm import batch_norm_grad, batch_norm_inference, lrn, lrn_grad
from prototorch.spec import Spec

#: the gradient of an activation -> itself, and the activation
FOLLOWS = {"relu_grad": (relu_grad, relu), "relu6_grad": (relu6_grad, relu6)}


class BatchNormSlopeGrad(Op):
    """``batch_norm_slope_grad(g, x, gamma, beta, mean, variance, slope=, eps=, axis=1)``: the gradients of x, gamma and
    beta from that of ``relu(batch_norm(x, gamma, beta))``. ``slope`` names the activation's gradient."""

    def rule(
        self, g: Spec, x: Spec, gamma: Spec, beta: Spec, mu: Spec, var: Spec, slope: str, eps: float, axis: int = 1
    ):
        if slope not in FOLLOWS:
            raise self.fail(f"knows the slopes {', '.join(FOLLOWS)}, not {slope!r}")
        return batch_norm_grad.rule(g, x, gamma, mu, var, eps=eps, axis=axis)

    def expand(self, g: Any, x: Any, gamma: Any, beta: Any, mu: Any, var: Any, slope: str, eps: float,
               axis: int = 1) -> Any:  # fmt: skip
        grad, activation = FOLLOWS[slope]
        y = activation(batch_norm_inference(x, gamma, beta, mu, var, eps=eps, axis=axis))
        return batch_norm_grad(grad(g, y), x, gamma, mu, var, eps=eps, axis=axis)


class LrnAlone(Op):
    """The output of `lrn` without the base of the power."""

    def rule(self, x: Spec, size: int, alpha: float, beta: float, k: float) -> Spec:
        return lrn.rule(x, size=size, alpha=alpha, beta=beta, k=k)[0]

    def expand(self, x: Any, size: int, alpha: float, beta: float, k: float) -> Any:
        return lrn(x, size=size, alpha=alpha, beta=beta, k=k)[0]


class LrnAloneGrad(Op):
    """``lrn_alone_grad(g, x)``: the gradient of x from that of the output; with ``slope`` that of what ReLU made x
    from."""

    def rule(self, g: Spec, x: Spec, size: int, alpha: float, beta: float, k: float, slope: bool = False) -> Spec:
        return lrn_alone.rule(x, size=size, alpha=alpha, beta=beta, k=k)

    def expand(self, g: Any, x: Any, size: int, alpha: float, beta: float, k: float, slope: bool = False) -> Any:
        attrs = {"size": size, "alpha": alpha, "beta": beta, "k": k}
        made = lrn_grad(g, x, lrn(x, **attrs)[1], **attrs)
        return relu_grad(made, x) if slope else made


batch_norm_slope_grad = BatchNormSlopeGrad()
lrn_alone, lrn_alone_grad = LrnAlone(), LrnAloneGrad()
