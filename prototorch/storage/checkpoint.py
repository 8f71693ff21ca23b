"""A model in one file: its expanded text, its weights, and, for a training that goes on, all of its state.

weights/<layer>/<weight>            the weights, plain float32, channels-first
optimizer/<layer>/<weight>/<slot>   the optimiser's slots
metrics/<phase>/<metric>/<total>    totals of the epoch that is under way
state/<n>                           arrays that callbacks remember
meta                                format, model text, training state as JSON
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from prototorch.errors import ModelFileError, UsageError, WeightsError, did_you_mean
from prototorch.runtime.variables import METRIC_PREFIX, SLOT_PREFIX
from prototorch.storage import container

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """What a file holds. ``arrays`` bear the names of the model's variables; ``training`` is None without a state."""

    text: str
    arrays: dict[str, np.ndarray]
    training: dict[str, Any] | None


def save(path: str | PathLike[str], text: str, variables: Mapping[str, Any], training: dict[str, Any] | None) -> None:
    """Write a model durably: the file is there whole or not at all, and what was there before stays until then.

    Without ``training`` only the weights are written. Raises SnapshotError where it cannot be written.
    """
    arrays: dict[str, np.ndarray] = {}
    for name, array in variables.items():
        if training is not None or not name.startswith((SLOT_PREFIX, METRIC_PREFIX)):
            arrays[_path_of_variable(name)] = np.asarray(array, order="C")
    meta: dict[str, str | int | float] = {"format": FORMAT_VERSION, "kind": "model", "model_text": text}
    if training is not None:
        try:
            meta["training"] = json.dumps(_extract_arrays(training, arrays))
        except TypeError as exc:
            raise UsageError(
                f"a callback's state can hold numbers, strings, lists, dicts and arrays only: {exc}"
            ) from None
    container.write(path, arrays, meta)


def load(path: str | PathLike[str]) -> Checkpoint:
    """Read a file that `save` wrote. Raises ModelFileError for a damaged one, or one of another kind or version."""
    contents = container.read(path)
    meta = contents.meta
    if meta.get("kind") != "model" or "model_text" not in meta:
        raise ModelFileError(f"{path}: a prototorch file, but not a saved model")
    version = meta.get("format")
    if not isinstance(version, int) or not isinstance(meta["model_text"], str):
        raise ModelFileError(f"{path}: a saved model whose format and text are not what they should be")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path}: written by a newer prototorch (format {version}, this one reads {FORMAT_VERSION})"
        )
    variables = {n: a for p, a in contents.arrays.items() if (n := _variable_of_path(p)) is not None}
    training = None
    if "training" in meta:
        try:
            training = _insert_arrays(json.loads(str(meta["training"])), contents.arrays)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ModelFileError(f"{path}: its training state cannot be read: {error!r:.200}") from error
        if not isinstance(training, dict):
            raise ModelFileError(f"{path}: its training state is a {type(training).__name__}, not named values")
    return Checkpoint(meta["model_text"], variables, training)


@dataclass(frozen=True)
class LoadReport:
    """What `load_weights_into` did: names of weights, and for mismatches the two shapes (in the file, in the model)."""

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    mismatched: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]

    def __str__(self) -> str:
        return self.format("in the file")

    def format(self, where: str) -> str:
        """As a text; ``where`` says where the given weights are."""
        lines = [f"{len(self.loaded)} weights loaded"]
        for what, names in ((f"missing {where}", self.missing), ("not in the model", self.unexpected)):
            if names:
                lines.append(f"{len(names)} {what}: {_abbreviate(names)}")
        for name, theirs, ours in self.mismatched[:10]:
            lines.append(f"{name}: {list(theirs)} {where}, {list(ours)} in the model")
        return "\n".join(lines)


def _abbreviate(names: tuple[str, ...]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def compare_weights(here: Mapping[str, Any], given: Mapping[str, np.ndarray]) -> LoadReport:
    """Which of the given weights fit the ones that are there."""
    both = [n for n in here if n in given]
    wrong = tuple((n, tuple(given[n].shape), tuple(here[n].shape)) for n in both if given[n].shape != here[n].shape)
    bad = {n for n, _, _ in wrong}
    return LoadReport(
        tuple(n for n in both if n not in bad),
        tuple(n for n in here if n not in given),
        tuple(n for n in given if n not in here),
        wrong,
    )


def assign_weights(here: Mapping[str, Any], given: Mapping[str, np.ndarray], *, by_name: bool = False,
           skip_mismatch: bool = False, source: str = "the weights", strict: bool = False) -> LoadReport:  # fmt: skip
    """Write given weights over the ones that are there; nothing is written where anything is refused. strict: they come
    from no file, and the caller cannot ask for less.

    Raises WeightsError as `load_weights_into`.
    """
    report = compare_weights(here, {n: np.asarray(a) for n, a in given.items()})
    where = "among those given" if strict else "in the file"
    if not by_name and (report.missing or report.unexpected):
        hint = did_you_mean(report.missing[0], report.unexpected) if report.missing and report.unexpected else ""
        way = "" if strict else " (by_name=True loads those that do)"
        raise WeightsError(f"{source} do not fit the model{way}:\n{report.format(where)}{hint}")
    if report.mismatched and not skip_mismatch:
        way = "" if strict else " (skip_mismatch=True leaves these out)"
        raise WeightsError(f"{source} do not fit the model{way}:\n{report.format(where)}")
    if not report.loaded and (here or given):
        raise WeightsError(f"{source}: no weight of the model is there:\n{report}")
    for name in report.loaded:
        here[name][...] = given[name]
    return report


def load_weights_into(path: str | PathLike[str], here: Mapping[str, Any], *, by_name: bool = False,
              skip_mismatch: bool = False) -> LoadReport:  # fmt: skip
    """Read the weights of a saved model into the ones that are there.

    Strict unless ``by_name`` (weights may be missing or left over) or ``skip_mismatch`` (shapes may differ). Raises
    WeightsError where they do not fit, with the whole report, and ModelFileError for a damaged file.
    """
    found = load(path)
    weights = {n: a for n, a in found.arrays.items() if not n.startswith((SLOT_PREFIX, METRIC_PREFIX))}
    return assign_weights(here, weights, by_name=by_name, skip_mismatch=skip_mismatch, source=f"the weights of {path}")


def _path_of_variable(name: str) -> str:
    if name.startswith(SLOT_PREFIX):
        weight, slot = name[len(SLOT_PREFIX) :].rsplit(":", 1)
        return f"optimizer/{weight}/{slot}"
    if name.startswith(METRIC_PREFIX):
        return "metrics/" + name[len(METRIC_PREFIX) :].replace("/", "|").replace(":", "/")
    return f"weights/{name}"


def _variable_of_path(path: str) -> str | None:
    kind, _, rest = path.partition("/")
    if kind == "weights":
        return rest
    if kind == "optimizer":
        return SLOT_PREFIX + ":".join(rest.rsplit("/", 1))
    if kind == "metrics":
        return METRIC_PREFIX + rest.replace("/", ":").replace("|", "/")
    return None


def _extract_arrays(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Plain JSON, with each array put into the file and named here."""
    if isinstance(value, np.ndarray):
        path = f"state/{sum(p.startswith('state/') for p in arrays)}"
        arrays[path] = value
        return {"$array": path}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(k): _extract_arrays(v, arrays) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_extract_arrays(v, arrays) for v in value]
    return value


def _insert_arrays(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if set(value) == {"$array"}:
            return arrays[value["$array"]]
        return {k: _insert_arrays(v, arrays) for k, v in value.items()}
    if isinstance(value, list):
        return [_insert_arrays(v, arrays) for v in value]
    return value
