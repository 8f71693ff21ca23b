"""The state of an optimizer in PyTorch's form: parameters by number, groups as dicts."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from prototorch.eager.functions.creation import tensor
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError

#: states that are one number for the whole parameter
NUMBERS = ("step", "mu_product", "eta", "mu")

__all__ = ["NUMBERS", "load_states", "states_by_index"]


def states_by_index(state: Mapping[Any, Any], groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """``{"state": ..., "param_groups": ...}`` with numbers in place of the parameters, in the groups' order."""
    order: dict[int, int] = {}
    for group in groups:
        for p in group["params"]:
            order.setdefault(id(p), len(order))
    group_states = [{**group, "params": [order[id(p)] for p in group["params"]]} for group in groups]
    return {
        "state": {order[id(k)] if isinstance(k, Tensor) else k: value for k, value in state.items()},
        "param_groups": group_states,
    }


def load_states(
    state_dict: Mapping[str, Any], groups: Sequence[Mapping[str, Any]], is_elementwise: bool = False
) -> tuple[dict[Any, Any], list[dict[str, Any]]]:
    """The states by parameter, and the groups, that a state dict gives an optimizer with these groups.

    is_elementwise: whether states that are tensors have the shape of their parameter.

    Raises UsageError where it does not have the same numbers of groups and parameters, or shapes.
    """
    for key in ("state", "param_groups"):
        if key not in state_dict:
            raise UsageError(f"a state dict of an optimizer has 'state' and 'param_groups'; this one has no {key!r}")
    saved_groups = state_dict["param_groups"]
    if len(saved_groups) != len(groups):
        raise UsageError(f"the state dict has {len(saved_groups)} parameter groups, the optimizer has {len(groups)}")
    params: dict[Any, Tensor] = {}
    for number, (saved_group, own_group) in enumerate(zip(saved_groups, groups, strict=True)):
        if len(saved_group["params"]) != len(own_group["params"]):
            raise UsageError(
                f"parameter group {number} of the state dict has {len(saved_group['params'])} parameters, that of the "
                f"optimizer {len(own_group['params'])}"
            )
        params.update(zip(saved_group["params"], own_group["params"], strict=True))
    state = {}
    for key, value in state_dict["state"].items():
        p = params.get(key)
        state[key if p is None else p] = copy.deepcopy(value) if p is None else _state_of(p, value, is_elementwise)
    loaded = []
    for saved_group, own_group in zip(saved_groups, groups, strict=True):
        group = {name: copy.deepcopy(value) for name, value in saved_group.items() if name != "params"}
        if "param_names" in own_group and "param_names" not in saved_group:
            group["param_names"] = own_group["param_names"]
        loaded.append({**group, "params": own_group["params"]})
    return state, loaded


def _state_of(p: Tensor, value: Any, is_elementwise: bool, name: str = "") -> Any:
    """A state in the parameter's dtype and on its device; `NUMBERS` remain on the CPU."""
    if isinstance(value, Mapping):
        return {key: _state_of(p, item, is_elementwise, str(key)) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return type(value)(_state_of(p, item, is_elementwise, name) for item in value)
    if not (hasattr(value, "detach") or isinstance(value, np.ndarray)):
        return copy.deepcopy(value)
    array = value.detach().cpu().numpy() if hasattr(value, "cpu") else np.asarray(value)
    if is_elementwise and array.ndim and tuple(array.shape) != tuple(p.shape):
        raise UsageError(
            f"the state {name!r} of the state dict has shape {list(array.shape)}, its parameter {list(p.shape)}"
        )
    if name in NUMBERS:  # PyTorch gives all of them but the step the parameter's dtype
        return tensor(np.array(array, array.dtype if name == "step" else p.spec.dtype))
    state: Tensor = p.interpreter.constant(array.astype(p.spec.dtype))
    return state
