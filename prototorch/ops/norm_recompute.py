"""Normalisation gradients that recompute values instead of reading them: a plan uses these ops where a backend has
kernels for them.

The derivative of an activation after a batch normalisation follows from the output of the normalisation, which follows
from its input; the bases of a local response normalisation follow from its input as well.
"""

from __future__ import annotations

from typing import Any

from prototorch.ops.activation import relu, relu6, relu6_grad, relu_grad
from prototorch.ops.core import Op
from prototorch.ops.norm import batch_norm_grad, batch_norm_inference, lrn, lrn_grad
from prototorch.spec import Spec

#: the name of an activation's gradient op -> that op, and the activation
ACTIVATION_OF_GRAD = {"relu_grad": (relu_grad, relu), "relu6_grad": (relu6_grad, relu6)}


class BatchNormReluGrad(Op):
    """``batch_norm_relu_grad(g, x, gamma, beta, mean, variance, activation_grad=, eps=, axis=1)``: the gradients of x,
    gamma and beta from that of ``relu(batch_norm(x, gamma, beta))``. ``activation_grad`` names the activation's
    gradient op."""

    def infer_spec(
        self,
        g: Spec,
        x: Spec,
        gamma: Spec,
        beta: Spec,
        mu: Spec,
        var: Spec,
        activation_grad: str,
        eps: float,
        axis: int = 1,
    ):
        if activation_grad not in ACTIVATION_OF_GRAD:
            raise self.shape_error(
                f"activation_grad must be one of {', '.join(ACTIVATION_OF_GRAD)}, got {activation_grad!r}"
            )
        return batch_norm_grad.infer_spec(g, x, gamma, mu, var, eps=eps, axis=axis)

    def decompose(
        self, g: Any, x: Any, gamma: Any, beta: Any, mu: Any, var: Any, activation_grad: str, eps: float, axis: int = 1
    ) -> Any:
        grad, activation = ACTIVATION_OF_GRAD[activation_grad]
        y = activation(batch_norm_inference(x, gamma, beta, mu, var, eps=eps, axis=axis))
        return batch_norm_grad(grad(g, y), x, gamma, mu, var, eps=eps, axis=axis)


class LrnRecompute(Op):
    """The output of `lrn` without the base of the power."""

    def infer_spec(self, x: Spec, size: int, alpha: float, beta: float, k: float) -> Spec:
        return lrn.infer_spec(x, size=size, alpha=alpha, beta=beta, k=k)[0]

    def decompose(self, x: Any, size: int, alpha: float, beta: float, k: float) -> Any:
        return lrn(x, size=size, alpha=alpha, beta=beta, k=k)[0]


class LrnRecomputeGrad(Op):
    """``lrn_recompute_grad(g, x)``: the gradient of x from that of the output; with ``through_relu`` that of the
    input of the ReLU that computed x."""

    def infer_spec(
        self, g: Spec, x: Spec, size: int, alpha: float, beta: float, k: float, through_relu: bool = False
    ) -> Spec:
        return lrn_recompute.infer_spec(x, size=size, alpha=alpha, beta=beta, k=k)

    def decompose(
        self, g: Any, x: Any, size: int, alpha: float, beta: float, k: float, through_relu: bool = False
    ) -> Any:
        attrs = {"size": size, "alpha": alpha, "beta": beta, "k": k}
        dx = lrn_grad(g, x, lrn(x, **attrs)[1], **attrs)
        return relu_grad(dx, x) if through_relu else dx


batch_norm_relu_grad = BatchNormReluGrad()
lrn_recompute, lrn_recompute_grad = LrnRecompute(), LrnRecomputeGrad()
