"""The gradient of a batch normalisation that an activation follows, from the activation's: its slope is told from what
the normalisation gave, which is computed again from the input. A plan uses it where a backend has a kernel for it."""

from __future__ import annotations

from typing import Any

from prototorch.ops.activation import relu, relu6, relu6_grad, relu_grad
from prototorch.ops.core import Op
from prototorch.ops.norm import batch_norm_grad, batch_norm_inference
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


batch_norm_slope_grad = BatchNormSlopeGrad()
