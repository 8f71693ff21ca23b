"""The state of a module by names: `state_dict` and `load_state_dict`, with PyTorch's names and options."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from prototorch.eager.grad_mode import no_grad
from prototorch.eager.in_place import assign
from prototorch.eager.interpreter import interpreter_for
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError, WeightsError, did_you_mean
from prototorch.nn.hooks import HookHandle, module_hooks
from prototorch.nn.module_tree import ModuleTree
from prototorch.nn.parameter import Parameter

__all__ = ["IncompatibleKeys", "ModuleState", "OrderedState", "as_tensor_of_state"]

_EXTRA = "_extra_state"


class OrderedState(OrderedDict[str, Any]):
    """The tensors of a state by name. `_metadata` holds the version of each module, by its path."""

    _metadata: dict[str, Any]
    #: what `load_state_dict` does once it is clear that all fits
    pending: list[Callable[[], Any]]


class IncompatibleKeys(NamedTuple):
    """The names that a state lacks, and those that the module lacks."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def as_tensor_of_state(value: Any) -> Tensor | None:
    """A value of a state as a tensor: one of ours, of PyTorch or an array; None for what is none of these."""
    if isinstance(value, Tensor):
        return value
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float().numpy() if str(value.dtype) == "torch.bfloat16" else value.numpy()
    if isinstance(value, np.ndarray | np.generic) and np.asarray(value).dtype.kind in "biuf":
        return interpreter_for("cpu").constant(np.asarray(value))
    return None


class ModuleState(ModuleTree):
    """A module that gives and takes its state."""

    _version: int = 1

    # ------------------------------------------------------------------ state_dict

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """All parameters and persistent buffers by name, an ordered dictionary. The tensors share their memory with
        the module's; ``keep_vars`` gives the parameters themselves. prefix: put before each name."""
        if args:
            defaults: list[Any] = [destination, prefix, keep_vars]  # older PyTorch's order
            destination, prefix, keep_vars = [*args, *defaults[len(args) :]]
        if destination is None:
            destination = OrderedState()
            destination._metadata = {}
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook, _ in module_hooks(self, "state_dict_pre"):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook, _ in module_hooks(self, "state_dict"):
            result = hook(self, destination, prefix, metadata)
            if result is not None:
                raise UsageError("a state_dict hook changes the dictionary and returns None")
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, tensor in self._state_members():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not ModuleState.get_extra_state:
            destination[f"{prefix}{_EXTRA}"] = self.get_extra_state()

    def _state_members(self) -> Iterator[tuple[str, Any]]:
        for register in (self._parameters, self._buffers):
            for name, tensor in register.items():
                if tensor is not None and name not in self._non_persistent:
                    yield name, tensor

    def get_extra_state(self) -> Any:
        """Further state for the `state_dict`, for subclasses that have one; `set_extra_state` takes it."""
        raise UsageError(f"{type(self).__name__} does not define get_extra_state()")

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` gave."""
        raise UsageError(f"{type(self).__name__} does not define set_extra_state(state)")

    # ------------------------------------------------------------------ load_state_dict

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Copy a state by its names into the parameters and buffers; values are tensors, PyTorch's tensors or arrays.

        strict: raise an error unless the names are the same. assign: take the given tensors themselves, with their
        dtype and device. Gives the names that were missing and those that were unexpected. The weights of a layer that
        has not been called yet are loaded at its first call.

        Raises WeightsError where a shape differs or, with ``strict``, a name; nothing is changed then. Raises
        UsageError for what is no dictionary.
        """
        if not isinstance(state_dict, Mapping):
            raise UsageError(f"load_state_dict: expected a dictionary of tensors, got {type(state_dict).__name__}")
        for name in state_dict:
            if not isinstance(name, str):
                raise UsageError(f"load_state_dict: the names of a state are strings, got {name!r:.60}")
        state = OrderedState(state_dict)
        state.pending = []
        state._metadata = dict(getattr(state_dict, "_metadata", {}) or {})
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        self._load_tree(state, "", assign, missing, unexpected, errors)
        if strict:
            names = [n for n, _ in self._all_state_names()]
            errors = [
                *(f"{name!r} is missing" for name in missing),
                *(f"{name!r} is no name of it.{did_you_mean(name, names)}" for name in unexpected),
                *errors,
            ]
        if errors:
            first_errors = errors[:20] + ([f"and {len(errors) - 20} more"] if len(errors) > 20 else [])
            raise WeightsError(f"the state does not fit {type(self).__name__}: " + "; ".join(first_errors))
        for action in state.pending:
            action()
        keys = IncompatibleKeys(missing, unexpected)
        for module in self.modules():
            for hook, _ in module_hooks(module, "load_state_dict"):
                if hook(module, keys) is not None:
                    raise UsageError("a load_state_dict post hook changes the names in place and returns None")
        return keys

    def _all_state_names(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        yield from ((prefix + name, t) for name, t in self._state_members())
        for name, child in self._modules.items():
            if child is not None:
                yield from child._all_state_names(f"{prefix}{name}.")

    def _load_tree(
        self, state: Any, prefix: str, assign: bool, missing: list[str], unexpected: list[str], errors: list[str]
    ) -> None:
        metadata = dict(state._metadata.get(prefix[:-1], {}), assign_to_params_buffers=assign)
        for hook, options in module_hooks(self, "load_state_dict_pre"):
            args = (state, prefix, metadata, True, missing, unexpected, errors)
            hook(self, *args) if options["with_module"] else hook(*args)
        self._load_from_state_dict(state, prefix, metadata, True, missing, unexpected, errors)
        for name, child in self._modules.items():
            if child is not None:
                child._load_tree(state, f"{prefix}{name}.", assign, missing, unexpected, errors)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load the module's own members; a subclass that overrides it has PyTorch's arguments."""
        for name, tensor in list(self._state_members()):
            if prefix + name not in state_dict:
                missing_keys.append(prefix + name)
                continue
            value = as_tensor_of_state(state_dict[prefix + name])
            error = self._why_not(name, tensor, value, state_dict[prefix + name])
            if error is not None:
                error_msgs.append(f"{prefix}{name} {error}")
            elif value is not None:
                self._load_later(state_dict, name, tensor, value, local_metadata.get("assign_to_params_buffers", False))
        extra = f"{prefix}{_EXTRA}"
        if type(self).set_extra_state is not ModuleState.set_extra_state:
            if extra in state_dict:
                state_dict.pending.append(lambda: self.set_extra_state(state_dict[extra]))
            else:
                missing_keys.append(extra)
        for key in state_dict:
            first, _, rest = key[len(prefix) :].partition(".")
            if key.startswith(prefix) and not self._knows(first, rest):
                unexpected_keys.append(key)

    def _why_not(self, name: str, tensor: Any, value: Tensor | None, original: Any) -> str | None:
        """Why a value cannot be the new one of a member, None where it can."""
        if value is None:
            return f"is no tensor but a {type(original).__name__}"
        if value.spec.shape == tensor.spec.shape or (value.spec.shape == (1,) and tensor.spec.shape == ()):
            return None
        return f"has the shape {list(value.spec.shape)}, expected {list(tensor.spec.shape)}"

    def _knows(self, first: str, rest: str) -> bool:
        if rest:
            return self._modules.get(first) is not None
        own = {name for name, _ in self._state_members()}
        return first in own or (first == _EXTRA and type(self).set_extra_state is not ModuleState.set_extra_state)

    def _load_later(self, state_dict: Any, name: str, tensor: Any, value: Tensor, take: bool) -> None:
        if not take:
            state_dict.pending.append(lambda: copy_into(tensor, value))
        elif isinstance(tensor, Parameter):
            parameter = Parameter(value.detach(), requires_grad=tensor.requires_grad)
            state_dict.pending.append(lambda: setattr(self, name, parameter))
        else:
            state_dict.pending.append(lambda: setattr(self, name, value.detach()))

    # ------------------------------------------------------------------ hooks of the state

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> HookHandle:
        """Call ``hook(module, prefix, keep_vars)`` before `state_dict`."""
        return module_hooks(self, "state_dict_pre").add(hook)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> HookHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after `state_dict`."""
        return module_hooks(self, "state_dict").add(hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> HookHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)``
        before the module's own members are loaded; it may change the dictionary, which is a copy."""
        return module_hooks(self, "load_state_dict_pre").add(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: Callable[..., None], with_module: bool = False) -> HookHandle:
        return module_hooks(self, "load_state_dict_pre").add(hook, with_module=with_module)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> HookHandle:
        """Call ``hook(module, incompatible_keys)`` after `load_state_dict`."""
        return module_hooks(self, "load_state_dict").add(hook)


def copy_into(tensor: Tensor, value: Tensor) -> None:
    """Overwrite a tensor's elements, which may be on another device and of another dtype."""
    if value.interpreter is not tensor.interpreter:
        value = tensor.interpreter.constant(value.numpy())
    with no_grad():
        assign(tensor, value.detach(), "load_state_dict")
