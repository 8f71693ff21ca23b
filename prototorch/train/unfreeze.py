"""Staged unfreezing: layers that are trained from a later epoch on."""

from __future__ import annotations

from prototorch.errors import ModelWarning, UsageError, warn_user
from prototorch.schema import field
from prototorch.schema.block_source import find_span
from prototorch.schema.patterns import Pattern
from prototorch.schema.types import ListOf
from prototorch.text.diagnostics import located
from prototorch.train.callbacks import Callback, Logs, verbose_field
from prototorch.train.learning_rates import optimizer_field, rates_to_change
from prototorch.train.log_names import LogNames

__all__ = ["Unfreeze"]


class Unfreeze(Callback):
    """Train frozen layers from an epoch on (gradual unfreezing; Howard and Ruder, 2018; PyTorch Lightning's
    ``BackboneFinetuning``).

    The state of the optimizer stays; weights that are trained anew begin with fresh slots, as those of a new parameter
    group in PyTorch. The layers may be frozen by ``compile { freeze: ... }`` or by ``trainable: false``. They stay
    unfrozen after the fit, and in the saved model.
    """

    positional = ("epoch", "layers")

    epoch: int = field(min=0, doc="The number of epochs that are trained before.")
    layers: tuple[str, ...] = field(type=ListOf(Pattern()), doc="Patterns of the layers or weights.")
    learning_rate: float | None = field(
        default=None, min=0, doc="The learning rate from then on; where left out it stays."
    )
    verbose: int = verbose_field()
    optimizer: str | None = optimizer_field()

    def check(self) -> None:
        if any(pattern.startswith("!") for pattern in self.layers):
            self.refuse("layers are those to unfreeze: a pattern with ! has no meaning here", "layers")

    def check_logs(self, names: LogNames) -> None:
        rates_to_change(self.model, self)
        plan_cache = self.model.trainer.plan_cache
        for pattern in self.layers:
            with located(find_span(self, "layers")):
                if not plan_cache.newly_trained(pattern):
                    raise UsageError(
                        f"Unfreeze: nothing that {pattern!r} matches is frozen: name frozen layers, or freeze them: "
                        f'compile {{ freeze: "{pattern}" }} (what a layer\'s own trainable: false freezes is unfrozen '
                        "as a whole layer)"
                    )
        epochs = self.params.get("epochs")
        if epochs is not None and self.epoch >= epochs:
            note = f"Unfreeze {{ epoch: {self.epoch} }} has no effect: the fit ends after {epochs} epochs"
            warn_user(note, ModelWarning)

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        if epoch < self.epoch or not self.model.trainer.unfreeze(self.layers):
            return
        rates = self.model.learning_rates
        if self.learning_rate is not None:
            for name in rates_to_change(self.model, self):
                rates[name] = self.learning_rate
        values = " and ".join(f"{rate:.4g}" for rate in rates.values())
        self.announce(f"epoch {epoch + 1}: trains {', '.join(self.layers)}; the learning rate is {values}")
