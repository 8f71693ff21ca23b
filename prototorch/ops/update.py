"""Optimiser updates as ops: the new weight and slots from weight, gradient, slots and hyperparameters.

``rate`` and ``step`` are 0-d values (the learning rate, float32; the step number from 1, int64); the rest are
attributes. The
formulas are Keras 3's. Every update takes ``decay``, the decoupled weight decay: the weight shrinks by decay * rate
first. Output 0 may be written over the weight, output i over slot i.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from prototorch.ops.core import Op
from prototorch.ops.facts import flops_per_output
from prototorch.spec import Spec


class Update(Op):
    """An update of one weight by its gradient: ``update(weight, gradient, rate, step, *slots)``.

    rate, step: scalars, the learning rate and the number of the iteration. Returns the new weight and the new slots, of
    the specs of the old ones.
    """

    elementwise = True
    slots: ClassVar[int] = 0
    #: the outputs that are no larger than what they were before, or the gradient, or its square
    averages: ClassVar[tuple[int, ...]] = ()
    derivatives = ()

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls.inplace = {0: 0, **{i + 1: i + 4 for i in range(cls.slots)}}

    def infer_spec(self, w: Spec, g: Spec, rate: Spec, step: Spec, *slots: Spec, **attrs: Any) -> tuple[Spec, ...]:
        for other in (g, *slots):
            if other.shape != w.shape:
                raise self.shape_error(f"expected gradient and slots of shape {list(w.shape)}, got {list(other.shape)}")
        return (w, *slots)

    def bounded_outputs(self, attrs: Mapping[str, Any]) -> tuple[int, ...]:
        """The outputs in ``averages`` for attributes with which they are averages."""
        factors = (attrs[name] for name in ("beta_1", "beta_2", "rho") if name in attrs)
        return self.averages if all(0 <= factor <= 1 for factor in factors) else ()

    def reference(self, xp, w, g, rate, step, *slots, decay=0.0, **attrs):
        rate = xp.astype(rate, w.dtype)
        w = w - w * (decay * rate) if decay else w
        count = xp.astype(step, w.dtype)
        results = self.compute_update(xp, w, g, rate, count, *slots, **attrs)
        return tuple(xp.astype(m, s.dtype) for m, s in zip(results, (w, *slots), strict=True))

    def compute_update(self, xp: Any, w: Any, g: Any, rate: Any, t: Any, *slots: Any, **attrs: Any) -> tuple[Any, ...]:
        """The formula: the new weight and slots."""
        raise TypeError(f"{self.name} does not define compute_update")


class SgdUpdate(Update):
    """w - rate * (g + l2 * w)."""

    flops = flops_per_output(2)

    def compute_update(self, xp, w, g, rate, t, l2=0.0):
        return (w - rate * (g + l2 * w if l2 else g),)


class MomentumUpdate(Update):
    """v = momentum * v - rate * g; w + v, or w + momentum * v - rate * g (Nesterov). ``l2`` adds l2 * w to g."""

    slots = 1
    flops = flops_per_output(4)

    def compute_update(self, xp, w, g, rate, t, v, momentum, nesterov=False, l2=0.0):
        step = rate * (g + l2 * w if l2 else g)
        v = momentum * v - step
        return (w + momentum * v - step if nesterov else w + v), v


class AdamUpdate(Update):
    """Adam (Kingma and Ba, 2015); with ``decay`` AdamW."""

    slots = 2
    averages = (1, 2)
    flops = flops_per_output(12)

    def compute_update(self, xp, w, g, rate, t, m, v, beta_1, beta_2, epsilon):
        m = m + (g - m) * (1 - beta_1)
        v = v + (g * g - v) * (1 - beta_2)
        alpha = rate * xp.sqrt(1 - beta_2**t) / (1 - beta_1**t)
        return w - m * alpha / (xp.sqrt(v) + epsilon), m, v


class AmsgradUpdate(Update):
    """Adam with the largest second moment so far (Reddi et al., 2018)."""

    slots = 3
    averages = (1, 2, 3)
    flops = flops_per_output(13)

    def compute_update(self, xp, w, g, rate, t, m, v, top, beta_1, beta_2, epsilon):
        m = m + (g - m) * (1 - beta_1)
        v = v + (g * g - v) * (1 - beta_2)
        top = xp.maximum(top, v)
        alpha = rate * xp.sqrt(1 - beta_2**t) / (1 - beta_1**t)
        return w - m * alpha / (xp.sqrt(top) + epsilon), m, v, top


#: the terms of log(1 - 0.5 * 0.96^i) summed over i, 0.48^k / (k (1 - 0.96^k)); 0.48^60 is below a float64's last place
_NADAM = tuple(0.48**k / (k * (1 - 0.96**k)) for k in range(1, 60))


class NadamUpdate(Update):
    """Adam with Nesterov momentum (Dozat, 2016).

    u_i = beta_1 (1 - 0.5 * 0.96^i); their product up to t needs no slot, for its logarithm is a geometric sum in each
    term of log(1 - z) = -sum of z^k / k: a polynomial of 0.96^t.
    """

    slots = 2
    averages = (1, 2)
    flops = flops_per_output(14)

    def compute_update(self, xp, w, g, rate, t, m, v, beta_1, beta_2, epsilon):
        u_t = beta_1 * (1 - 0.5 * 0.96**t)
        u_next = beta_1 * (1 - 0.5 * 0.96 ** (t + 1))
        power = 0.96 ** xp.astype(t, xp.float64)
        total = power * 0.0
        for term in reversed(_NADAM):
            total = (total + term) * power
        product = beta_1**t * xp.astype(math.e ** (total - sum(_NADAM)), w.dtype)
        m = m + (g - m) * (1 - beta_1)
        v = v + (g * g - v) * (1 - beta_2)
        m_hat = u_next * m / (1 - product * u_next) + (1 - u_t) * g / (1 - product)
        v_hat = v / (1 - beta_2**t)
        return w - m_hat * rate / (xp.sqrt(v_hat) + epsilon), m, v


def _root(xp: Any, square: Any, epsilon: float, epsilon_inside_root: bool) -> Any:
    """The root of a mean square or sum of squares, with epsilon added under it or to it."""
    return xp.sqrt(square + epsilon) if epsilon_inside_root else xp.sqrt(square) + epsilon


class RmspropUpdate(Update):
    """RMSprop (Hinton's lecture 6): the slot is the mean square of the gradient.

    ``epsilon_inside_root``, here and in the updates like it: epsilon is added under the root (Keras) or to it (Caffe,
    PyTorch).
    """

    slots = 1
    averages = (1,)
    flops = flops_per_output(8)

    def compute_update(self, xp, w, g, rate, t, v, rho, epsilon, epsilon_inside_root=True):
        v = rho * v + (1 - rho) * g * g
        return w - rate * g / _root(xp, v, epsilon, epsilon_inside_root), v


class RmspropMomentumUpdate(Update):
    """RMSprop with momentum: slots are the mean square and the momentum."""

    slots = 2
    averages = (1,)
    flops = flops_per_output(10)

    def compute_update(self, xp, w, g, rate, t, v, b, rho, momentum, epsilon, epsilon_inside_root=True):
        v = rho * v + (1 - rho) * g * g
        b = momentum * b + rate * g / _root(xp, v, epsilon, epsilon_inside_root)
        return w - b, v, b


class CenteredRmspropUpdate(Update):
    """RMSprop by the variance: slots are the mean square, the momentum and the mean of the gradient."""

    slots = 3
    flops = flops_per_output(12)

    def compute_update(self, xp, w, g, rate, t, v, b, a, rho, momentum, epsilon, epsilon_inside_root=True):
        v = rho * v + (1 - rho) * g * g
        a = rho * a + (1 - rho) * g
        b = momentum * b + rate * g / _root(xp, v - a * a, epsilon, epsilon_inside_root)
        return w - b, v, b, a


class AdagradUpdate(Update):
    """Adagrad (Duchi et al., 2011)."""

    slots = 1
    flops = flops_per_output(6)

    def compute_update(self, xp, w, g, rate, t, a, epsilon, epsilon_inside_root=True):
        a = a + g * g
        return w - rate * g / _root(xp, a, epsilon, epsilon_inside_root), a


class AdadeltaUpdate(Update):
    """Adadelta (Zeiler, 2012)."""

    slots = 2
    flops = flops_per_output(12)

    def compute_update(self, xp, w, g, rate, t, a, d, rho, epsilon):
        a = rho * a + (1 - rho) * g * g
        delta = -xp.sqrt(d + epsilon) / xp.sqrt(a + epsilon) * g
        d = rho * d + (1 - rho) * delta * delta
        return w + rate * delta, a, d


class AdamaxUpdate(Update):
    """Adamax, Adam with the infinity norm (Kingma and Ba, 2015)."""

    slots = 2
    averages = (1, 2)
    flops = flops_per_output(10)

    def compute_update(self, xp, w, g, rate, t, m, u, beta_1, beta_2, epsilon):
        m = m + (g - m) * (1 - beta_1)
        u = xp.maximum(beta_2 * u, xp.abs(g))
        return w - rate * m / ((1 - beta_1**t) * (u + epsilon)), m, u


class LionUpdate(Update):
    """Lion (Chen et al., 2023): the sign of an interpolated momentum."""

    slots = 1
    averages = (1,)
    flops = flops_per_output(9)

    def compute_update(self, xp, w, g, rate, t, m, beta_1, beta_2):
        w = w - rate * xp.sign(m * beta_1 + g * (1 - beta_1))
        return w, m * beta_2 + g * (1 - beta_2)


sgd_update, momentum_update, adam_update, amsgrad_update = SgdUpdate(), MomentumUpdate(), AdamUpdate(), AmsgradUpdate()
nadam_update, adagrad_update, rmsprop_update = NadamUpdate(), AdagradUpdate(), RmspropUpdate()
rmsprop_momentum_update, centered_rmsprop_update = RmspropMomentumUpdate(), CenteredRmspropUpdate()
adadelta_update, adamax_update, lion_update = AdadeltaUpdate(), AdamaxUpdate(), LionUpdate()
