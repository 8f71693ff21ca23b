"""Names that PyTorch and Keras have at their top are theirs: what has such a name here is that thing, or an exception
with its reason. A name that is an exception cannot be offered with PyTorch's or Keras' meaning any more."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
from types import ModuleType
from typing import Any

import keras
import torch

import prototorch as pt
from prototorch.eager.namespace import NAMES as TENSOR_NAMES
from prototorch.eager.registry import FUNCTIONS

#: names of PyTorch that are another thing here
NOT_PYTORCHS = {
    "Graph": "a static graph that users write; PyTorch's is a C++ class of TorchScript without a public constructor",
    "compiler": "what `compile` is made of; the place for the functions of torch.compiler",
    "nn.LayerChild": "the module of a layer of a text; PyTorch has modules alone",
    "ops": "the ops that layers, derivatives and kernels share; torch.ops holds the operators of C++ libraries",
    "testing": "the harness of layers that users test their own with; the place for torch.testing.assert_close",
}
#: names of Keras that the core or PyTorch's face has at its top; others belong below `prototorch.keras`
KERAS_NAMES = {
    "Function": "PyTorch's face: an op of a user with its derivative (torch.autograd.Function)",
    "Input": "the core's: an input of a net, with Keras' meaning",
    "Layer": "the core's: the base of layers, of a user's own as well",
    "Model": "the core's: a net with its weights, with Keras' methods",
    "Sequential": "the core's: the model of a list of layers, as in Keras",
    "Variable": "the core's: an array that a static graph keeps between calls",
    "callbacks": "the core's, with Keras' names and hooks",
    "constraints": "the core's, with Keras' names",
    "device": "PyTorch's face: a device of tensors",
    "initializers": "the core's, with Keras' names",
    "layers": "the core's, with Keras' names",
    "losses": "the core's, with Keras' names",
    "metrics": "the core's, with Keras' names",
    "models": "the shipped models as functions",
    "ops": "the ops that layers, derivatives and kernels share",
    "optimizers": "the core's, with Keras' names",
    "regularizers": "the core's, with Keras' names",
    "utils": "PyTorch's face: checkpoint and data, as in torch.utils",
}


def _submodules(package: ModuleType) -> set[str]:
    return {info.name for info in pkgutil.iter_modules(package.__path__) if not info.name.startswith("_")}


def _top(package: ModuleType) -> set[str]:
    """The public names at the top of a package of another system, its modules included."""
    return {name for name in dir(package) if not name.startswith("_")} | _submodules(package)


OWN = {name for name in pt.__all__ if not name.startswith("_")} | _submodules(pt)


def _members(value: Any) -> set[str]:
    return {name for name in getattr(value, "__all__", None) or dir(value) if not name.startswith("_")}


def _other_than_pytorchs(name: str) -> set[str]:
    """What has a name here and is another thing than PyTorch's: the name, or those of a module's members that PyTorch's
    module lacks. Functions of tensors are compared by tests/eager; other functions must have PyTorch's parameters."""
    if name in TENSOR_NAMES or name in FUNCTIONS:
        return set()
    value = getattr(pt, name) if name in pt.__all__ else importlib.import_module(f"prototorch.{name}")
    peer = getattr(torch, name)
    if inspect.ismodule(value):
        members = set(getattr(value, "__all__", ()))
        common = members & set(dir(peer))
        return {f"{name}.{member}" for member in members - common} if common else {name}
    if inspect.isfunction(value):
        parameters = inspect.signature(value).parameters.values()
        named = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
        return set() if named <= set(inspect.signature(peer).parameters) else {name}
    cls, peer_class = (v if inspect.isclass(v) else type(v) for v in (value, peer))
    return set() if _members(cls) <= set(dir(peer_class)) else {name}


def test_names_of_pytorch_are_pytorchs_things_or_exceptions():
    shared = OWN & _top(torch)
    assert {"nn", "optim", "cuda", "autograd", "func", "linalg", "special", "utils"} <= shared
    assert set().union(*map(_other_than_pytorchs, shared)) == set(NOT_PYTORCHS)


def test_modules_that_pytorch_has_are_not_ours_by_accident():
    """What will be asked for with PyTorch's meaning."""
    for name in ("backends", "storage", "random", "onnx", "profiler", "jit", "fx", "sparse", "distributions"):
        assert name not in OWN or not _other_than_pytorchs(name)


def test_names_of_keras_are_below_keras_but_for_those_with_a_reason():
    assert OWN & _top(keras) == set(KERAS_NAMES)


def test_the_package_keras_is_free_or_kerass_face():
    if importlib.util.find_spec("prototorch.keras") is not None:
        assert _members(importlib.import_module("prototorch.keras")) <= _top(keras)


def test_each_exception_has_a_reason():
    assert all(len(reason.split()) > 3 for reason in (*NOT_PYTORCHS.values(), *KERAS_NAMES.values()))
