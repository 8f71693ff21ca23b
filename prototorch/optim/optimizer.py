"""The base class of optimizers, by PyTorch's name and with its parameter groups, states and hooks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any

import numpy as np

from prototorch.base.declared_family import DeclaredFamily
from prototorch.eager.functions.gradients import RemovableHandle
from prototorch.eager.grad_mode import enable_grad
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError
from prototorch.optim.state_dict import load_states, states_by_index

__all__ = ["Optimizer", "required"]


class _Required:
    """The default of a hyperparameter that each group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer(DeclaredFamily, family="optim"):
    """The base class: a subclass defines ``step``, which changes the parameters by their gradients.

    Args:
        params: tensors, pairs (name, tensor) as ``named_parameters()`` gives them, or dicts ``{"params": ..., "lr":
            ...}`` with hyperparameters of their own.
        defaults: the hyperparameters of groups that do not give them.

    Attributes:
        param_groups: a dict for each group: "params" and the hyperparameters, which may be changed at any time.
        state: parameter -> what is kept of it between steps, tensors by name.
        defaults: as given.

    Raises:
        UsageError: no parameters, one that is not a leaf, or one that is in two groups. TypeError: what is no tensor.
    """

    has_elementwise_states = False  #: whether states that are tensors have the shape of their parameter

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]):
        if isinstance(params, Tensor):
            raise TypeError("params must be an iterable of tensors or dicts, got a tensor: give [tensor]")
        self.defaults = defaults
        self.has_stepped = False  #: whether `step` was called, which schedules of the learning rate ask for
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._hooks: dict[str, list[Callable[..., Any]]] = defaultdict(list)
        groups = list(params)
        if not groups:
            raise UsageError("the optimizer got an empty list of parameters")
        if not isinstance(groups[0], Mapping):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    # ------------------------------------------------------------------ parameters

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add a group ``{"params": ..., hyperparameter: value}``. Raises UsageError and TypeError as the class does."""
        if not isinstance(param_group, Mapping):
            raise TypeError(f"a parameter group is a dict, got a {type(param_group).__name__}")
        if "params" not in param_group:
            raise UsageError("a parameter group needs 'params'")
        group = dict(param_group)
        group["params"] = self._parameters_of(group)
        for name, default in self.defaults.items():
            if name not in group and default is required:
                raise UsageError(f"a parameter group gives no value of {name}, which has no default")
            group.setdefault(name, default)
        ids_in_use = {id(p) for other in self.param_groups for p in other["params"]}
        ids = [id(p) for p in group["params"]]
        if len(set(ids)) < len(ids) or ids_in_use & set(ids):
            raise UsageError("a parameter appears twice in the parameter groups")
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            raise UsageError("either all parameter groups have names of their parameters, or none")
        self.param_groups.append(group)

    @staticmethod
    def _parameters_of(group: dict[str, Any]) -> list[Tensor]:
        params = group["params"]
        if isinstance(params, set | frozenset):
            raise TypeError("parameters need an order, and a set has none: give a list")
        params = [params] if isinstance(params, Tensor) else list(params)
        if params and all(isinstance(p, tuple) and len(p) == 2 for p in params):
            group["param_names"] = [name for name, _ in params]
            params = [p for _, p in params]
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"an optimizer takes tensors, got a {type(p).__module__}.{type(p).__name__}")
            if not p.is_leaf:
                raise UsageError(
                    "an optimizer takes leaf tensors, and one of these was computed from others: give the tensors it "
                    "was computed from"
                )
        return params

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients; with ``set_to_none=False`` fill them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    gradient = p.grad = p.grad.detach()
                    zero = gradient.interpreter.constant(np.zeros((), gradient.spec.dtype))
                    gradient.interpreter.write(gradient, zero)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters by their gradients. closure: computes them anew, and returns the loss."""
        raise NotImplementedError(f"{type(self).__name__} must define step(closure=None)")

    @staticmethod
    def evaluate(closure: Callable[[], Any] | None) -> Any:
        """The loss that a closure returns, or None without one; gradients are recorded in it."""
        if closure is None:
            return None
        with enable_grad():
            return closure()

    # ------------------------------------------------------------------ states

    def state_dict(self) -> dict[str, Any]:
        """``{"state": {number: tensors by name}, "param_groups": [...]}``: PyTorch's form, parameters by number."""
        for hook in self._hooks["state_dict_pre"]:
            hook(self)
        result = states_by_index(self.state, self.param_groups)
        for hook in self._hooks["state_dict_post"]:
            changed = hook(self, result)
            result = result if changed is None else changed
        return result

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave, of this optimizer or of PyTorch's; arrays are copied.

        Raises UsageError where the groups, or their numbers of parameters or shapes, are others.
        """
        state_dict = dict(state_dict)
        for hook in self._hooks["load_state_dict_pre"]:
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        state, groups = load_states(state_dict, self.param_groups, self.has_elementwise_states)
        self.state = defaultdict(dict, state)
        self.param_groups = groups
        for hook in self._hooks["load_state_dict_post"]:
            hook(self)

    # ------------------------------------------------------------------ hooks

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step; it may return new ``(args, kwargs)``."""
        return self._add_hook("step_pre", hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return self._add_hook("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before `state_dict`."""
        return self._add_hook("state_dict_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after `state_dict`; it may return another dict."""
        return self._add_hook("state_dict_post", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before `load_state_dict`; it may return another dict."""
        return self._add_hook("load_state_dict_pre", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` after `load_state_dict`."""
        return self._add_hook("load_state_dict_post", hook, prepend)

    def run_hooks(
        self, kind: str, args: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Call the hooks of a step; the arguments as they have changed them."""
        for hook in list(self._hooks[kind]):
            changed = hook(self, args, options)
            if changed is not None and kind == "step_pre":
                if not isinstance(changed, tuple) or len(changed) != 2:
                    raise UsageError(f"a step_pre_hook returns None or (args, kwargs), got {changed!r:.60}")
                args, options = changed
        return args, options

    def _add_hook(self, kind: str, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        hooks = self._hooks[kind]
        hooks.insert(0 if prepend else len(hooks), hook)
        return RemovableHandle(hooks, hook)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name not in ("params", "param_names")]
        return "\n".join([*lines, ")"])

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__.setdefault("_hooks", defaultdict(list))
        self.__dict__.setdefault("has_stepped", False)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """The step of a subclass, with the hooks before and after it."""

    @wraps(step)
    def run(self: Optimizer, *args: Any, **options: Any) -> Any:
        if self._hooks["step_pre"]:
            args, options = self.run_hooks("step_pre", args, options)
        result = step(self, *args, **options)
        self.has_stepped = True
        if self._hooks["step_post"]:
            self.run_hooks("step_post", args, options)
        return result

    return run
