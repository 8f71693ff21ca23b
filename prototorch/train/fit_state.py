"""The state of a training: position, learning rate, loader and callbacks; what a checkpoint keeps of it.

The keys of the saved state are part of the file format and stay as they are; `training_state` checks them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from prototorch.data.batch import BatchIterator
from prototorch.data.loader import Loader
from prototorch.errors import TrainingError, UsageError
from prototorch.train.callbacks import Callback
from prototorch.train.optimizer_blocks import ONLY_OPTIMIZER
from prototorch.train.trained_weights import Unfreezing

__all__ = ["EpochState", "FitState"]


class EpochState(Enum):
    """The progress of a fit within its epoch."""

    BETWEEN_EPOCHS = "between epochs"
    TRAINING = "training"  # the epoch has begun
    VALIDATING = "validating"  # its training steps are done
    ENDING = "ending"  # validated as well; ``on_epoch_end`` of the callbacks has not been called, or not of all
    FINISHED = "finished"  # the fit has ended, and was not interrupted

    @staticmethod
    def from_saved(state: Mapping[str, Any]) -> EpochState:
        """The state that a saved fit was in."""
        if state.get("ending") is not None:
            return EpochState.ENDING
        if state["trained"]:
            return EpochState.VALIDATING
        if state["inside"]:
            return EpochState.TRAINING
        return EpochState.FINISHED if state["over"] else EpochState.BETWEEN_EPOCHS


class BeforeEpochEnd(NamedTuple):
    """What callbacks may change at the end of an epoch, as it was before they were called."""

    callback_states: list[dict[str, Any]]
    rate_overrides: dict[str, float]
    stop_training: bool


class FitState:
    """Everything besides the variables that decides how a training continues.

    Attributes:
        step: training steps so far, over all fits.
        dataset_epochs: passes through the data so far, over all fits: it decides the order of the next pass, so that
            two fits of one epoch are one fit of two.
        epoch, batch: the current epoch (from 0), and the steps done in it.
        samples_seen: samples of this epoch so far.
        epoch_state: the progress within the epoch.
        steps_per_epoch: the number of steps of an epoch of the last fit; None if it is not known.
        rate_overrides: learning rates that were set by hand or by a callback, by the names of the optimizers.
        unfreezings: layers that are trained although they were frozen when the model was compiled.
        stop_training: set to end the epoch after this step, and the fit after the epoch.
        stop_reason: why the callback that set ``stop_training`` did so, or None.
        interrupt_signal: the signal that ended the last fit, or None.
        is_snapshot_requested: set by SIGHUP: the callbacks are asked for a snapshot after this step.
        before_epoch_end: what the callbacks may change at the end of an epoch, as it was before; None at other times.
        epoch_logs, epoch_seconds: loss and metrics of the last complete epoch, and its seconds by purpose.
        validation_loader: the loader of the validation data; None without, or where they are a stream.
        resume_state: the saved state of an earlier fit, for the next one to continue from.
    """

    def __init__(self) -> None:
        self.step = self.dataset_epochs = 0
        self.epoch = self.batch = self.samples_seen = 0
        self.epoch_state = EpochState.BETWEEN_EPOCHS
        self.steps_per_epoch: int | None = None
        self.rate_overrides: dict[str, float] = {}
        self.unfreezings: tuple[Unfreezing, ...] = ()
        self.stop_training = False
        self.stop_reason: str | None = None
        self.interrupt_signal: int | None = None
        self.is_snapshot_requested = False
        self.epoch_logs, self.epoch_seconds = dict[str, Any](), dict[str, float]()
        self.validation_loader: Loader | None = None
        self.loader: BatchIterator | None = None
        self.callbacks: list[Callback] = []
        self.resume_state: dict[str, Any] | None = None
        self.before_epoch_end: BeforeEpochEnd | None = None

    def epochs_done(self) -> float:
        """The number of epochs trained so far, over all fits, with the fraction of the one that is being trained."""
        if self.epoch_state is EpochState.TRAINING and self.steps_per_epoch:
            return self.dataset_epochs + self.batch / self.steps_per_epoch
        return self.dataset_epochs

    def state(self) -> dict[str, Any]:
        """The state as a checkpoint keeps it: with the variables, enough to continue bit for bit."""
        before = self.before_epoch_end
        rates = dict(self.rate_overrides if before is None else before.rate_overrides)
        only_rate = rates.pop(ONLY_OPTIMIZER, None)
        unfrozen = {"unfrozen": [u._asdict() for u in self.unfreezings]} if self.unfreezings else {}
        return {
            **unfrozen,
            "step": self.step,
            "passes": self.dataset_epochs,
            "set_rate": only_rate,
            **({"set_rates": rates} if rates else {}),
            "fit": self.resume_state if self.loader is None else self._fit_state(self.loader),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over a `state`; the next fit continues from there."""
        self.step, self.dataset_epochs = state["step"], state["passes"]
        only_rate = state["set_rate"]
        self.rate_overrides = {
            **({} if only_rate is None else {ONLY_OPTIMIZER: only_rate}),
            **state.get("set_rates", {}),
        }
        self.unfreezings = tuple(Unfreezing(u["pattern"], u["step"]) for u in state.get("unfrozen", ()))
        self.resume_state = state["fit"]

    def _fit_state(self, loader: BatchIterator) -> dict[str, Any]:
        before = self.before_epoch_end
        is_stopped = self.stop_training if before is None else before.stop_training
        return {
            "epoch": self.epoch,
            "batch": self.batch,
            "seen": self.samples_seen,
            "inside": self.epoch_state in (EpochState.TRAINING, EpochState.VALIDATING, EpochState.ENDING),
            "trained": self.epoch_state in (EpochState.VALIDATING, EpochState.ENDING),
            "over": self.epoch_state is EpochState.FINISHED,
            "stopped": is_stopped and self.interrupt_signal is None,
            "stop_reason": self.stop_reason,
            "kind": loader.state_kind,
            "loader": loader.state(),
            "callbacks": self.callback_states() if before is None else before.callback_states,
            "ending": None if before is None else {"logs": self.epoch_logs, "seconds": self.epoch_seconds},
            "validation": None if self.validation_loader is None else self.validation_loader.fingerprint(),
        }

    def callback_states(self) -> list[dict[str, Any]]:
        """The classes and states of the callbacks, without those that only display."""
        return [{"class": c.type_name(), "state": c.state()} for c in self.callbacks if not c.display]

    def _take_resume_state(self, resume: bool | None, epochs: int) -> dict[str, Any] | None:
        """The state to continue from, None to begin a new training; a saved state is used only once."""
        state, self.resume_state = self.resume_state, None
        if resume is None:
            unfinished = state is not None and (
                state.get("ending") is not None or (not (state["over"] or state["stopped"]) and state["epoch"] < epochs)
            )
            return state if unfinished else None
        if not resume:
            return None
        if state is None and self.loader is not None:
            state = self._fit_state(self.loader)
        if state is None:
            raise UsageError(
                "resume: this model holds no training that could go on; save the whole model while it trains"
            )
        return state

    def _restore_position(self, state: Mapping[str, Any], loader: BatchIterator) -> None:
        """Continue at the position of a saved fit. Raises TrainingError where the loader is of another kind."""
        kind = loader.state_kind
        if state["kind"] != kind:
            raise TrainingError(
                f"the training cannot go on exactly: its data came from a {state['kind']}, now from a {kind}; "
                "fit(..., resume=False) begins a new one with these weights"
            )
        loader.restore(state["loader"])
        validation = state.get("validation")
        if validation is not None and self.validation_loader is not None:
            self.validation_loader.check_unchanged(validation, "validation samples")
        self.epoch, self.batch, self.samples_seen = state["epoch"], state["batch"], state["seen"]
        self.epoch_state, self.stop_training = EpochState.from_saved(state), state["stopped"]
        self.stop_reason = state.get("stop_reason")
        if self.epoch_state is EpochState.ENDING:
            self.epoch_logs, self.epoch_seconds = dict(state["ending"]["logs"]), dict(state["ending"]["seconds"])

    def _restore_callbacks(self, state: Mapping[str, Any]) -> None:
        """Give the callbacks their saved states. Raises TrainingError where they are of other classes."""
        callbacks = [c for c in self.callbacks if not c.display]
        saved = state["callbacks"]
        if [c["class"] for c in saved] != (names := [c.type_name() for c in callbacks]):
            raise TrainingError(
                f"the training cannot go on exactly: it had the callbacks {', '.join(c['class'] for c in saved)}, now "
                f"{', '.join(names)}; fit(..., resume=False) begins a new one with these weights"
            )
        for callback, one in zip(callbacks, saved, strict=True):
            callback.restore(one["state"])
