"""All checks over all examples of a layer."""

from __future__ import annotations

from collections.abc import Sequence

from prototorch.engine.backends.core import Backend
from prototorch.engine.backends.cpu import cpu
from prototorch.engine.harness.case import cases
from prototorch.engine.harness.checks import CHECKS
from prototorch.errors import UsageError, did_you_mean
from prototorch.layers.base import Layer


def check_layer(layer: type[Layer], backend: Backend | None = None, only: Sequence[str] | None = None) -> int:
    """Check a layer from its own examples on a backend (the CPU by default); give back how many checks were made.

    ``only`` names the checks to make; see `CHECKS`. Raises AssertionError that names the layer, the example and
    the check where one fails, UsageError where the layer has no example or a check does not exist.
    """
    names = list(CHECKS) if only is None else list(only)
    for name in names:
        if name not in CHECKS:
            raise UsageError(f"there is no check {name!r}.{did_you_mean(name, CHECKS)}")
    if not layer.examples:
        raise UsageError(f"{layer.__name__} has no examples to be checked from")
    backend = backend or cpu()
    for case in cases(layer):
        for name in names:
            try:
                CHECKS[name](case, backend)
            except AssertionError as failed:
                raise AssertionError(f"{case.id} ({case.example.text}), {name}: {failed}") from failed
    return len(layer.examples) * len(names)
