"""Where the weights are in what a PyTorch file holds: a state_dict, one inside a training checkpoint, or several."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from prototorch.interop.readers.torch_objects import TensorRef

__all__ = ["StateDict", "find_state_dict"]

MAX_DEPTH = 16
#: keys under which training scripts save the weights, the usual ones first
_WRAPPERS = (
    "state_dict", "model_state_dict", "model_state", "model", "module", "net", "network", "net_state_dict", "weights",
    "params",
)  # fmt: skip
#: parts of keys beside the weights -> what they hold
_TRAINING_STATE = {
    "optim": "the optimizer's state", "opt": "the optimizer's state", "scheduler": "the schedule's state",
    "scaler": "the loss scale's state", "amp": "the loss scale's state", "rng": "the random numbers' state",
    "callbacks": "the callbacks' state", "loops": "the training loop's state",
}  # fmt: skip


@dataclass
class StateDict:
    """Tensors by name, what else there is with its kind, and the keys that led to the tensors ("state_dict")."""

    tensors: dict[str, TensorRef] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    wrapper: str = ""


def find_state_dict(value: Any) -> StateDict:
    """The tensors under a key that training scripts use, at any depth; else all tensors, those of dictionaries inside
    named ``key.name``. The optimizer's state and the like are left out."""
    result = StateDict()
    keys: list[str] = []
    visited: set[int] = set()
    while type(value) is dict and id(value) not in visited:
        visited.add(id(value))
        key = next((k for k in _WRAPPERS if type(value.get(k)) is dict and _has_tensors(value[k])), None)
        if key is None:
            break
        for other, item in value.items():
            if other != key:
                result.skipped[".".join([*keys, str(other)])] = _kind_of(other, item)
        keys.append(key)
        value = value[key]
    result.wrapper = ".".join(keys)
    if type(value) is TensorRef:
        result.tensors["tensor"] = value
    else:
        _collect(value, "", result, set(), 0)
    return result


def _collect(value: Any, prefix: str, result: StateDict, visited: set[int], depth: int) -> None:
    """Add the tensors below a dictionary or list."""
    if type(value) not in (dict, list, tuple) or id(value) in visited or depth > MAX_DEPTH:
        return
    visited.add(id(value))
    for key, item in value.items() if type(value) is dict else enumerate(value):
        name = f"{prefix}{key}"
        if type(item) is TensorRef:
            result.tensors[name] = item
        elif _has_tensors(item) and not _training_state(key):
            _collect(item, f"{name}.", result, visited, depth + 1)
        else:
            result.skipped[name] = _kind_of(key, item)


def _has_tensors(value: Any) -> bool:
    """Whether a value holds tensors; containers that hold themselves, or one another often, are visited once."""
    stack, visited = [value], set()
    while stack:
        item = stack.pop()
        if type(item) is TensorRef:
            return True
        if type(item) in (dict, list, tuple) and id(item) not in visited:
            visited.add(id(item))
            stack += item.values() if type(item) is dict else item
    return False


def _training_state(key: Any) -> str | None:
    """What the value of a key of a checkpoint is, if it is no weight."""
    parts = str(key).lower().replace("-", "_").split("_")
    return next((kind for word, kind in _TRAINING_STATE.items() if any(p.startswith(word) for p in parts)), None)


def _kind_of(key: Any, value: Any) -> str:
    """For the report: why a value beside the weights is not one."""
    if _has_tensors(value):
        return _training_state(key) or "other tensors"
    kinds = {dict: "a dictionary", list: "a list", tuple: "a tuple", str: "a text", bytes: "bytes", type(None): "None"}
    return kinds.get(type(value), "a number")
