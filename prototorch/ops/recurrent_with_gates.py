"""LSTM that saves its gates for the gradient: a plan uses it where the gradient is computed too.

The gates are written over the projected input, and their gradient over them, so that nothing is computed twice and no
memory is added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prototorch.ops.core import Op
from prototorch.ops.facts import recurrent_flops
from prototorch.ops.recurrent import LstmSequence, array_activation, lstm_sequence
from prototorch.ops.recurrent_grad import LstmSequenceGrad
from prototorch.spec import Spec

#: derivatives of activations from their outputs; only such gates can be saved
DERIVATIVES_FROM_OUTPUT: dict[str, Callable[[Any, Any], Any]] = {
    "sigmoid": lambda xp, y: y * (1 - y), "tanh": lambda xp, y: 1 - y * y,
    "relu": lambda xp, y: xp.astype(y > 0, y.dtype), "linear": lambda xp, y: xp.ones(y.shape, dtype=y.dtype),
}  # fmt: skip


class LstmSequenceWithGates(LstmSequence):
    """`lstm_sequence`, with the gates after their activations [N, T, 4 units] as a last output."""

    inplace = {4: 0}
    decompose = Op.decompose

    def infer_spec(self, x: Spec, *rest: Spec, **attrs: Any) -> tuple[Spec, ...]:
        names = attrs.get("activation", "tanh"), attrs.get("recurrent_activation", "sigmoid")
        if set(names) - DERIVATIVES_FROM_OUTPUT.keys():
            raise self.shape_error(f"no derivative from the output is known for the activations {names}")
        return (*super().infer_spec(x, *rest, **attrs), x)

    def reference(self, xp: Any, x: Any, *rest: Any, masked: bool = False, reverse: bool = False, **attrs: Any) -> Any:
        outputs = lstm_sequence.reference(xp, x, *rest, masked=masked, reverse=reverse, **attrs)
        h = xp.concat([xp.expand_dims(rest[1], axis=1), outputs[0][:, :-1, :]], axis=1)
        z = x + xp.matmul(xp.flip(h, axis=1) if reverse else h, rest[0])
        n = z.shape[-1] // 4
        gate = array_activation(xp, attrs.get("recurrent_activation", "sigmoid"))
        squash = array_activation(xp, attrs.get("activation", "tanh"))
        saved_gates = xp.concat([gate(z[..., : 2 * n]), squash(z[..., 2 * n : 3 * n]), gate(z[..., 3 * n :])], axis=-1)
        return (*outputs, saved_gates)

    def vjp(self, grads: Any, outputs: Any, inputs: Any, needs: Any, attrs: Any) -> list[Any]:
        return [None] * len(inputs)


class LstmSequenceWithGatesGrad(LstmSequenceGrad):
    """The gradient of `lstm_sequence` from its gates, which are passed in place of x."""

    inplace = {0: 0}
    decompose = Op.decompose
    flops = recurrent_flops(2, 8)  # the gates are not computed again

    def gate_derivatives(
        self, xp: Any, x: Any, hs: Any, u: Any, activation: str, recurrent_activation: str
    ) -> tuple[Any, Any]:
        n = u.shape[0]
        gates = tuple(x[..., j * n : (j + 1) * n] for j in range(4))
        names = (recurrent_activation, recurrent_activation, activation, recurrent_activation)
        return gates, tuple(DERIVATIVES_FROM_OUTPUT[name](xp, y) for name, y in zip(names, gates, strict=True))


lstm_sequence_with_gates, lstm_sequence_with_gates_grad = LstmSequenceWithGates(), LstmSequenceWithGatesGrad()
