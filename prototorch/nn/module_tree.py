"""The tree of modules: parameters, buffers and children by name, and the ways through them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, Self

from prototorch.eager.tensor import Tensor
from prototorch.errors import ModelWarning, UsageError, did_you_mean, warn_user
from prototorch.nn.parameter import Buffer, Parameter

__all__ = ["CHILD_WRAPPERS", "ModuleTree", "as_child"]

#: types of things that are no modules and become children all the same: type -> makes the module of one
CHILD_WRAPPERS: dict[type, Callable[[Any], ModuleTree]] = {}


def as_child(value: Any) -> ModuleTree | None:
    """The module that stands for a value as a child, or None where it can be none."""
    if isinstance(value, ModuleTree):
        return value
    if "prototorch.model.model" in sys.modules:  # else there are no models
        importlib.import_module("prototorch.nn.model_child")
    wrap = next((wrap for cls, wrap in CHILD_WRAPPERS.items() if isinstance(value, cls)), None)
    return None if wrap is None else wrap(value)


class ModuleTree:
    """What a module is made of. An attribute that is a `Parameter`, a `Buffer` or a module is registered by its name.

    The registers exist from the beginning, so that a subclass may, but need not, call ``super().__init__()``.
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, ModuleTree | None]
    _non_persistent: set[str]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """See the class."""
        tree = super().__new__(cls)
        tree.__dict__.update(training=True, _parameters={}, _buffers={}, _modules={}, _non_persistent=set())
        return tree

    # ------------------------------------------------------------------ attributes

    def __setattr__(self, name: str, value: Any) -> None:
        child = None if isinstance(value, Tensor) else as_child(value)
        if isinstance(value, Parameter):
            self._forget(name, self._parameters)
            self.register_parameter(name, value)
        elif child is not None:
            self._forget(name, self._modules)
            self._modules[name] = child
        elif name in self._parameters:
            if value is not None:
                raise UsageError(
                    f"{name!r} is a parameter of {type(self).__name__}: expected an nn.Parameter or None, got "
                    f"{type(value).__name__}"
                )
            self._parameters[name] = None
        elif name in self._modules:
            if value is not None:
                raise UsageError(
                    f"{name!r} is a child of {type(self).__name__}: expected a module or None, got "
                    f"{type(value).__name__}"
                )
            self._modules[name] = None
        elif isinstance(value, Buffer):
            self._forget(name, self._buffers)
            self.register_buffer(name, value, persistent=value.__dict__["persistent"])
        elif name in self._buffers:
            if value is not None and not isinstance(value, Tensor):
                raise UsageError(
                    f"{name!r} is a buffer of {type(self).__name__}: expected a tensor or None, got "
                    f"{type(value).__name__}"
                )
            self._buffers[name] = value
        else:
            _warn_of_hidden_modules(self, name, value)
            object.__setattr__(self, name, value)

    def _forget(self, name: str, register: dict[str, Any]) -> None:
        for entries in (self.__dict__, self._parameters, self._buffers, self._modules):
            if entries is not register:
                entries.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        for register in ("_parameters", "_buffers", "_modules"):
            entries = self.__dict__.get(register, {})
            if name in entries:
                return entries[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}.{self._attribute_hint(name)}")

    def _attribute_hint(self, name: str) -> str:
        registers = (self.__dict__.get(r, {}) for r in ("_parameters", "_buffers", "_modules"))
        return did_you_mean(name, [*(n for r in registers for n in r), *dir(type(self))])

    def __delattr__(self, name: str) -> None:
        for register in (self._parameters, self._buffers, self._modules):
            if name in register:
                del register[name]
                self._non_persistent.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*object.__dir__(self), *self._parameters, *self._buffers, *self._modules}
        return sorted(n for n in names if not n[:1].isdigit())

    # ------------------------------------------------------------------ registration

    def _check_name(self, name: Any, register: dict[str, Any], what: str) -> None:
        if not isinstance(name, str):
            raise UsageError(f"the name of a {what} must be a string, got {type(name).__name__}")
        if "." in name or not name:
            raise UsageError(f"the name of a {what} must not be empty or contain a '.', got {name!r}")
        if name not in register and (hasattr(type(self), name) or name in self.__dict__ or hasattr(self, name)):
            raise UsageError(f"{type(self).__name__} has an attribute {name!r} already, which is no {what}")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or the name of one that is None. Raises UsageError for a name that is taken or has a '.',
        and for what is no `Parameter`, or was computed from other tensors."""
        self._check_name(name, self._parameters, "parameter")
        if param is not None and not isinstance(param, Parameter):
            raise UsageError(f"{name!r}: expected an nn.Parameter or None, got {type(param).__name__}")
        if param is not None and not param.is_leaf:
            raise UsageError(f"{name!r} was computed from other tensors: a parameter is a leaf; compute it in forward")
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a buffer: a tensor of the state that is not trained. persistent: whether it is in the `state_dict`.

        Raises UsageError for a name that is taken or has a '.', and for what is no tensor.
        """
        self._check_name(name, self._buffers, "buffer")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise UsageError(f"{name!r}: expected a tensor or None, got {type(tensor).__name__}")
        self._buffers[name] = tensor
        (self._non_persistent.discard if persistent else self._non_persistent.add)(name)

    def add_module(self, name: str, module: Any) -> None:
        """Add a child (a module, a layer of `prototorch.layers`, or None). Raises UsageError for a name that is taken
        or has a '.', and for anything else."""
        self._check_name(name, self._modules, "child")
        child = None if module is None else as_child(module)
        if module is not None and child is None:
            raise UsageError(f"{name!r}: expected a module or None, got {type(module).__name__}")
        self._modules[name] = child

    def register_module(self, name: str, module: Any) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    # ------------------------------------------------------------------ ways through the tree

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module and all in it, with their names ("" for itself); each once, unless ``remove_duplicate=False``."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Any]:
        """This module and all in it, each once."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The modules directly in this one with their names, each once."""
        visited: set[Any] = set()
        for name, child in self._modules.items():
            if child is not None and child not in visited:
                visited.add(child)
                yield name, child

    def children(self) -> Iterator[Any]:
        """The modules directly in this one, each once."""
        return (child for _, child in self.named_children())

    def _named_members(
        self, register: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        visited: set[int] = set()
        modules = self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, tensor in list(getattr(module, register).items()):
                if tensor is None or (remove_duplicate and id(tensor) in visited):
                    continue
                visited.add(id(tensor))
                yield f"{path}.{name}" if path else name, tensor

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """The parameters with their names, such as ``hidden.weight``; those of the module alone with
        ``recurse=False``."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        """The parameters, each once."""
        return (tensor for _, tensor in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """The buffers with their names."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """The buffers, each once."""
        return (tensor for _, tensor in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Any:
        """The module of a path such as ``encoder.layers.0``; "" is this one. Raises UsageError where there is none."""
        module: Any = self
        for part in target.split(".") if target else ():
            modules = module._modules
            if modules.get(part) is None:
                raise UsageError(
                    f"{type(self).__name__} has no module {target!r}: {type(module).__name__} has no child {part!r}."
                    f"{did_you_mean(part, modules)}"
                )
            module = modules[part]
        return module

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Set the module of a path; with ``strict`` there must be one already. Raises UsageError where there is no
        module before the last part."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if strict:
            owner.get_submodule(name)
        owner._modules.pop(name, None)
        owner.add_module(name, module)

    def get_parameter(self, target: str) -> Any:
        """The parameter of a path. Raises UsageError where there is none."""
        return self._member("_parameters", target, "parameter")

    def get_buffer(self, target: str) -> Any:
        """The buffer of a path. Raises UsageError where there is none."""
        return self._member("_buffers", target, "buffer")

    def _member(self, register: str, target: str, what: str) -> Any:
        entries = getattr(self, register)
        first, dot, rest = target.partition(".")
        if dot and (self._modules or not entries):  # the members of declared layers and models have dots in their names
            return self.get_submodule(first)._member(register, rest, what)
        if entries.get(target) is None:
            raise UsageError(f"{type(self).__name__} has no {what} {target!r}.{did_you_mean(target, entries)}")
        return entries[target]

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Call ``fn(module)`` for every module in this one, the innermost first; gives this module."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self


def _warn_of_hidden_modules(owner: ModuleTree, name: str, value: Any) -> None:
    parts = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
    if any(not isinstance(part, Tensor) and as_child(part) is not None for part in parts):
        container = "nn.ModuleDict" if isinstance(value, dict) else "nn.ModuleList"
        warn_user(
            f"{type(owner).__name__}.{name} is a {type(value).__name__} of modules, which are no children: they have "
            f"no part in parameters(), state_dict(), train() and to(); make it {container}(...)",
            ModelWarning,
        )
