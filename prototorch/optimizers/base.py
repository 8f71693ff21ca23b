"""The base class of optimizers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from prototorch import ops
from prototorch.errors import UsageError, explain_word
from prototorch.graph.weight_spec import WeightSpec
from prototorch.optimizers.schedules.base import Schedule
from prototorch.schema import Block, field
from prototorch.schema.neutral_arguments import neutral
from prototorch.schema.overrides import CONFIG_METHODS

EMA_SLOT = "average"
MIN_EPSILON = 1e-10  # of updates whose quotients are known to be finite

UpdateInputs = tuple[Any, Any, Any, Any]  #: a weight's value, its gradient, the learning rate, the step (from 1)
UpdateResult = tuple[Any, dict[str, Any]]  #: a weight's new value and its new slots


def learning_rate_field(default: float = 0.001) -> Any:
    """The field of the learning rate. Each optimizer declares it, so that it is the first argument: ``Adam(1e-3)``."""
    return field(default=default, min=0, doc="The learning rate, or a schedule of it.")


class Optimizer(Block, family="optimizer"):
    """Updates weights by their gradients.

    A step is: gradients are clipped; each weight shrinks by the decoupled ``weight_decay``; it is updated; its moving
    average follows (Keras' order; a constraint comes last). All of it is expressed in ops, a part of the step's plan.

    There are two kinds of weight decay. ``weight_decay`` is decoupled, as in Keras: w shrinks by lr * weight_decay, and
    slots are not affected. ``l2`` (and ``l1``) is coupled: it is added to the gradient after clipping. That is what
    Caffe's solvers, and PyTorch's SGD and Adam, call weight_decay.

    The ``lr_mult`` of a weight multiplies its learning rate and ``decay_mult`` its decay of either kind.

    A subclass defines `create_slots` and `update`.
    """

    keyword_only: ClassVar[tuple[str, ...]] = ("gradient_accumulation_steps", "l2", "l1")
    neutral_arguments = {
        "name": neutral(hint="an optimizer has no name"),
        "loss_scale_factor": neutral(None, hint="compile(precision='fp16') scales the loss by itself"),
    }

    methods_without_effect: ClassVar[Mapping[str, str]] = {
        **CONFIG_METHODS,
        **dict.fromkeys(
            ("call", "__call__", "step", "update_step", "apply", "apply_gradients", "stateless_apply", "get_updates"),
            "define `update(self, inputs, slots, decay, weight)` in ops, of one weight (docs/extending.md)",
        ),
        **dict.fromkeys(
            ("build", "add_variable", "add_variable_from_reference", "add_optimizer_variables"),
            "`create_slots(self, weight)` gives the initial slots of a weight",
        ),
    }

    learning_rate: float | Schedule = learning_rate_field()
    weight_decay: float | None = field(
        default=None, min=0, doc="Decoupled weight decay: weights shrink by learning_rate * weight_decay in each step."
    )
    clipnorm: float | None = field(default=None, above=0, doc="The maximum L2 norm of each weight's gradient.")
    clipvalue: float | None = field(default=None, above=0, doc="The maximum absolute value of a gradient's elements.")
    global_clipnorm: float | None = field(default=None, above=0, doc="The maximum L2 norm of all gradients together.")
    use_ema: bool = field(
        default=False, doc="Keep an exponential moving average of each weight; training ends with the averages."
    )
    ema_momentum: float = field(default=0.99, min=0, max=1, doc="Decay rate of the average.")
    ema_overwrite_frequency: int | None = field(
        default=None, min=1, doc="Steps between two replacements of the weights by their averages."
    )

    gradient_accumulation_steps: int | None = field(
        default=None,
        min=1,
        doc="Update the weights in every n-th step only, by the mean of the gradients of n steps (Keras; Caffe's "
        "iter_size). Schedules count updates.",
    )
    l2: float = field(
        default=0.0,
        min=0,
        doc="Coupled weight decay: l2 * w is added to the clipped gradient, and so to momenta.",
    )
    l1: float = field(default=0.0, min=0, doc="L1 penalty: l1 * sign(w) is added to the clipped gradient.")

    setattr_hints = {"learning_rate": "set model.learning_rate for the steps to come"}

    #: whether `update` adds ``l2`` in its own op
    fuses_l2: ClassVar[bool] = False

    def check(self) -> None:
        clips = [n for n in ("clipnorm", "clipvalue", "global_clipnorm") if getattr(self, n) is not None]
        if len(clips) > 1:
            self.refuse(f"only one of {' and '.join(clips)} can be given", clips[1])
        if self.learning_rate == math.inf:
            self.refuse("learning_rate must be finite", "learning_rate")

    def __getattr__(self, name: str) -> NoReturn:
        hint = explain_word(name) if name.endswith("_gradients") else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def minimize(self, loss: Any, variables: Sequence[Any] | None = None) -> Any:
        """One step that lowers a loss, as an update of a static graph: ``pt.Graph(inputs, loss, updates=[step])``.

        loss: a symbolic tensor of one element. variables: those that are changed; default all trainable variables, and
        weights of layers, that the loss depends on. Raises UsageError for what is no symbolic tensor.
        """
        make = getattr(loss, "minimize_with", None)
        if make is None:
            raise UsageError(
                f"minimize: expected a symbolic tensor, got {type(loss).__name__}; tensors are trained by "
                "prototorch.optim, models by compile() and fit()"
            )
        return make(self, variables)

    # ------------------------------------------------------------------ what the trainer calls

    @property
    def steps_per_update(self) -> int:
        """The number of steps whose gradients an update takes the mean of."""
        return self.gradient_accumulation_steps or 1

    def updates_before(self, step: int) -> int:
        """The number of updates in the first ``step`` steps."""
        return step // self.steps_per_update

    @property
    def has_bounded_updates(self) -> bool:
        """Whether new weights and slots are finite as long as gradients, weights and slots are moderate (see
        `engine/backends/watching.py`): known of the optimizers here, not of one with a formula of its own, nor where
        a divisor may be 0. Where it is not, each step looks at all that it has written."""
        epsilon = getattr(self, "epsilon", 1.0)
        return type(self).__module__.startswith("prototorch.optimizers.") and epsilon >= MIN_EPSILON

    def clip(self, grads: Sequence[Any]) -> list[Any]:
        """The clipped gradients, expressed in ops."""
        if self.clipnorm is not None:
            return [g * clip_factor(sum_of_squares([g]), self.clipnorm) for g in grads]
        if self.global_clipnorm is not None and grads:
            factor = clip_factor(sum_of_squares(grads), self.global_clipnorm)
            return [g * factor for g in grads]
        if self.clipvalue is not None:
            return [ops.clip(g, -self.clipvalue, self.clipvalue) for g in grads]
        return list(grads)

    def initial_slots(self, weight: WeightSpec) -> dict[str, np.ndarray]:
        """The state of a weight between steps: initial arrays by name."""
        slots = self.create_slots(weight)
        return {**slots, EMA_SLOT: zeros_slot(weight)} if self.use_ema else slots

    def apply(
        self, value: Any, grad: Any, slots: Mapping[str, Any], rate: Any, step: Any, weight: WeightSpec
    ) -> UpdateResult:
        """The new value of a weight and its new slots, expressed in ops.

        value, grad: of the weight's shape. slots: by the names of `initial_slots`. rate: the learning rate, a 0-d
        float32 value. step: the number of this step from 1, a 0-d int64 value.
        """
        if weight.lr_mult != 1.0:
            rate = rate * weight.lr_mult
        method_slots = {name: slot for name, slot in slots.items() if name != EMA_SLOT}
        decay = (self.weight_decay or 0.0) * weight.decay_mult
        grad = self._add_penalty_gradients(value, grad, weight)
        new, new_slots = self.update((value, grad, rate, step), method_slots, decay, weight)
        if self.use_ema:
            new, new_slots[EMA_SLOT] = self._update_average(new, slots[EMA_SLOT], step)
        return new, new_slots

    def final_value(self, slots: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """The value of a weight after training: its moving average where there is one, else None (unchanged)."""
        return slots[EMA_SLOT] if self.use_ema and EMA_SLOT in slots else None

    # ------------------------------------------------------------------ defined by subclasses

    def create_slots(self, weight: WeightSpec) -> dict[str, np.ndarray]:
        """The initial slots of the method."""
        return {}

    def update(self, inputs: UpdateInputs, slots: dict[str, Any], decay: float, weight: WeightSpec) -> UpdateResult:
        """The new value and slots; ``given`` are value, gradient, rate and step (inputs of an update op), ``decay`` the
        decoupled weight decay of this weight."""
        raise TypeError(f"{type(self).__name__} does not define update")

    def _add_penalty_gradients(self, value: Any, grad: Any, weight: WeightSpec) -> Any:
        l1, l2 = self.l1 * weight.decay_mult, self.l2 * weight.decay_mult
        if l2 and not self.fuses_l2:
            grad = grad + value * l2
        return grad + ops.sign(value) * l1 if l1 else grad

    def _update_average(self, value: Any, average: Any, step: Any) -> tuple[Any, Any]:
        momentum = (
            ops.cast(ops.greater(step, 1), dtype=value.dtype) * self.ema_momentum
        )  # the first value is taken as it is
        average = average + (value - average) * (1.0 - momentum)
        every = self.ema_overwrite_frequency
        if every is not None:
            value = ops.where(ops.equal(ops.remainder(step, every), 0), average, value)
        return value, average


def zeros_slot(weight: WeightSpec) -> np.ndarray:
    """Zeros of the weight's shape and dtype: a slot before the first step."""
    return np.zeros(weight.spec.shape, weight.spec.dtype)


def sum_of_squares(grads: Sequence[Any]) -> Any:
    """The sum of the squares of all elements."""
    parts = [ops.sum(ops.square(g)) for g in grads]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def clip_factor(squared_norm: Any, max_norm: float) -> Any:
    """The factor that reduces a norm, given squared, to ``max_norm``; 1 where it is smaller already."""
    return max_norm / ops.maximum(ops.sqrt(squared_norm), max_norm)
