"""The shipped models as functions: ``pt.models.resnet50(pretrained=True)``.

Each text in the folder ``models`` is one; its parameters are the arguments (``classes=10``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from os import PathLike
from typing import Any

from prototorch.base.package_files import shipped_models
from prototorch.errors import UsageError, did_you_mean
from prototorch.interop.weight_sets.registry import list_sets, sets_of_model
from prototorch.model.load import load_model
from prototorch.model.model import Model
from prototorch.model.weights_block import Weights

PRETRAINED = "imagenet"  # the alias of the set that pretrained=True stands for, where a model has one


def __getattr__(name: str) -> Callable[..., Model]:
    if name.startswith("__"):
        raise AttributeError(name)
    if name not in shipped_models():
        hint = did_you_mean(name, shipped_models())
        raise AttributeError(f"prototorch.models has no model {name!r}.{hint}")
    return _model_function(name)


def __dir__() -> list[str]:
    return sorted(shipped_models())


@cache
def _model_function(name: str) -> Callable[..., Model]:
    def make_model(
        pretrained: bool = False, *, weights: str | PathLike[str] | Weights | None = None, **params: Any
    ) -> Model:
        if not isinstance(pretrained, bool):
            raise UsageError(f"models.{name}: pretrained must be True or False, not {pretrained!r:.80}")
        if pretrained and weights is not None:
            raise UsageError(f"models.{name}: give pretrained=True or weights=..., not both")
        what = _default_weights(name) if pretrained else weights
        return load_model(_text_with_weights(name, what), weights=what, **params)

    make_model.__name__ = make_model.__qualname__ = name
    make_model.__module__ = __name__
    make_model.__doc__ = (
        f"The model of models/{name}.proto, new, or with pretrained weights.\n\n"
        f'pretrained: with the weights "{_default_weights(name)}". weights: a weight set, a file or an address, or '
        "torchvision's enum; see `prototorch.load_model`. params: the text's parameters (classes=10).\n\n"
        "Raises UsageError where the model has no such weights."
    )
    return make_model


def _default_weights(name: str) -> str:
    """The set that ``pretrained=True`` stands for: the one with the alias PRETRAINED, of this model or in its place,
    else the first set of the model; PRETRAINED where there is none, which loading reports."""
    own = [one.weights for one in sets_of_model(name)]
    sets = [*own, *(one.weights for one in list_sets() if one.weights.replaces == name)]
    if own and not any(PRETRAINED in one.alias for one in sets):
        return own[0].name
    return PRETRAINED


def _text_with_weights(name: str, what: Any) -> str:
    """The model that a set of weights belongs to: the one of this name, or that which the set says replaces it."""
    address = getattr(what, "url", what)

    def has(declared: Any) -> bool:
        weights = declared.weights
        return address in (weights.name, weights.address, *weights.alias)

    if not isinstance(address, str) or any(has(one) for one in sets_of_model(name)):
        return name
    return next((one.weights.model for one in list_sets() if one.weights.replaces == name and has(one)), name)
