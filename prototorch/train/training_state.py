"""The schema of a saved training state, and the agreement of its fields; `FitState.state` writes what stands here.

Everything that `load_model` takes from the state in a file is checked here first: types, ranges, lengths, and where one
field determines another. What only the data can tell (their number, their contents) is checked when the fit resumes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from prototorch.data.loader import Loader
from prototorch.data.stream import BatchStream
from prototorch.schema.patterns import find_pattern_error
from prototorch.text.limits import MAX_NAME_LENGTH
from prototorch.train.callbacks import Callback
from prototorch.train.state_fields import (
    AnyState,
    Flag,
    Integer,
    ListField,
    LogValue,
    MapField,
    Number,
    OneOf,
    OptionalField,
    Record,
    StateError,
    Text,
)

__all__ = ["check_training_state"]


_RATE = Number(min=0, max=float(np.finfo(np.float32).max))
_SEED = Integer(-(2**63), 2**64 - 1)
_DIGEST = Record({"samples": Integer(), "sha256": Text(64)})
_LOADERS = {
    Loader.state_kind: Record(
        {
            "seed": _SEED, "epoch": Integer(), "position": Integer(), "samples": Integer(1), "batch_size": Integer(1),
            "shuffle": Flag(), "drop_last": Flag(), "skipped": ListField(Integer()),
        },
        {"data": _DIGEST, "buckets": ListField(Integer(1))},
    ),
    BatchStream.state_kind: Record({"seed": _SEED, "epoch": Integer(), "position": Integer()}),
}  # fmt: skip
_FIT = Record(
    {
        "epoch": Integer(), "batch": Integer(), "seen": Integer(), "inside": Flag(), "trained": Flag(),
        "over": Flag(), "stopped": Flag(), "kind": OneOf(tuple(_LOADERS)), "loader": MapField(AnyState()),
        "callbacks": ListField(Record({"class": Text(1000), "state": MapField(AnyState())})),
    },
    {
        "stop_reason": OptionalField(Text()),
        "ending": OptionalField(Record({"logs": MapField(LogValue()), "seconds": MapField(Number(min=0))})),
        "validation": OptionalField(_DIGEST),
    },
)  # fmt: skip
_STATE = Record(
    {"step": Integer(), "passes": Integer(), "set_rate": OptionalField(_RATE), "fit": OptionalField(_FIT)},
    {
        "unfrozen": ListField(Record({"pattern": Text(MAX_NAME_LENGTH), "step": Integer()})),
        "set_rates": MapField(_RATE),
    },
)


def check_training_state(state: Any, weights: Mapping[str, np.ndarray], seed: int | None) -> None:
    """Raise StateError for a state that no training can have.

    weights: those of the same file, by name. seed: of the model's compile block; None where it has been overridden.
    """
    _STATE.check(state, "")
    for index, entry in enumerate(state.get("unfrozen", ())):
        _at_most(entry["step"], state["step"], f"unfrozen[{index}].step", "the steps so far")
        error = find_pattern_error(entry["pattern"])
        _require(error is None, f"unfrozen[{index}].pattern", entry["pattern"], f"a pattern: {error}")
    fit = state["fit"]
    if fit is None:
        return
    _LOADERS[fit["kind"]].check(fit["loader"], "fit.loader")
    _check_position(state, fit, seed)
    for index, entry in enumerate(fit["callbacks"]):
        path, saved = f"fit.callbacks[{index}].state", entry["state"]
        callback = _class_with_schema(entry["class"])
        if callback is not None:
            callback.saved_state.check(saved, path)
            _check_callback(saved, path, state, weights)


def _check_position(state: Mapping[str, Any], fit: Mapping[str, Any], seed: int | None) -> None:
    """The fields that say how far the training is agree with each other."""
    loader = fit["loader"]
    _require(fit["inside"] or not fit["trained"], "fit.trained", fit["trained"], "false outside of an epoch")
    _require(not (fit["inside"] and fit["over"]), "fit.over", fit["over"], "false inside an epoch")
    is_ending = fit.get("ending") is not None
    _require(fit["trained"] or not is_ending, "fit.ending", fit.get("ending"), "null before the epoch is trained")
    _at_most(fit["batch"], state["step"], "fit.batch", "the steps so far")
    _at_most(fit["epoch"] + fit["trained"], state["passes"], "fit.epoch", "the passes through the data")
    _at_most(loader["epoch"], state["passes"] + state["step"] + 1, "fit.loader.epoch", "the passes through the data")
    if seed is not None:
        _require(loader["seed"] == seed, "fit.loader.seed", loader["seed"], f"{seed}, the seed of the compile block")
    if fit["kind"] != Loader.state_kind:
        return
    size, samples = loader["batch_size"], loader["samples"]
    _at_most(loader["position"], -(-samples // size) * size, "fit.loader.position", "the samples of an epoch")
    _require(loader["position"] % size == 0, "fit.loader.position", loader["position"], f"a multiple of {size}")
    if fit["inside"]:
        _at_most(fit["seen"], fit["batch"] * size, "fit.seen", "the samples of the epoch's steps")
    skipped = loader["skipped"]
    _require(
        _is_increasing([*skipped, samples]), "fit.loader.skipped", skipped, f"sorted sample numbers below {samples:,}"
    )


def _check_callback(
    saved: Mapping[str, Any], path: str, state: Mapping[str, Any], weights: Mapping[str, np.ndarray]
) -> None:
    """The fields of a callback agree with the position of the training, and with the weights."""
    epoch = state["fit"]["epoch"]
    for name in ("best_epoch", "stopped_epoch", "wait"):
        if saved.get(name) is not None:
            _at_most(saved[name], epoch, f"{path}.{name}", "the epochs so far")
    if "steps" in saved:
        _at_most(saved["steps"], state["step"], f"{path}.steps", "the steps so far")
    if "history" in saved:
        epochs = saved["epoch"]
        _require(
            _is_increasing([*epochs, epoch]), f"{path}.epoch", epochs, "sorted epoch numbers before the current one"
        )
        for name, values in saved["history"].items():
            _at_most(len(values), len(epochs), f"{path}.history.{name[:60]}", "the epochs, in values")
    best = saved.get("best_weights") or {}
    for name, array in best.items():
        expected = weights.get(name)
        if expected is None or (array.shape, array.dtype) != (expected.shape, expected.dtype):
            shape = "no weight of this name" if expected is None else f"{list(expected.shape)} of {expected.dtype}"
            raise StateError(f"{path}.best_weights.{name[:60]}", array, shape)
    _require(not best or best.keys() == weights.keys(), f"{path}.best_weights", best, f"all {len(weights)} weights")


def _class_with_schema(name: str) -> Any:
    """The class of that name, where the class that defines its `state` declares what it saves."""
    family = Callback.family_registry
    assert family is not None
    cls = family.find(name)
    owner = next((c for c in cls.__mro__ if "state" in vars(c)), None) if cls is not None else None
    return cls if owner is not None and "saved_state" in vars(owner) else None


def _is_increasing(values: list[int]) -> bool:
    return all(a < b for a, b in pairwise(values))


def _at_most(value: int, limit: int, path: str, of_what: str) -> None:
    _require(value <= limit, path, value, f"at most {limit:,} ({of_what})")


def _require(condition: bool, path: str, value: Any, expected: str) -> None:
    if not condition:
        raise StateError(path, value, expected)
