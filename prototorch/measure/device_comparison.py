"""A step of one model on several devices, side by side, with the settings under which each was measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from prototorch.cuda.device_kind import CUDNN_VAR
from prototorch.engine.backends.devices import describe_devices
from prototorch.errors import BackendError, PrototorchError, ResourceError, UsageError
from prototorch.measure.profile import Profile, profile_step
from prototorch.measure.table import align_columns, format_ms
from prototorch.model.model import Model

__all__ = ["Contender", "DeviceColumn", "DeviceComparison", "compare_devices", "without_cudnn_context"]

_LIBRARIES = ("numpy", "blas", "llvmlite", "driver", "cupy", "cudnn", "cudnn frontend", "nvrtc")


@dataclass(frozen=True)
class Contender:
    """A device to measure on. label: of its column. open_model: gives the model, compiled for the device. run_context:
    a function whose context is entered for it (default: none)."""

    label: str
    open_model: Callable[[], Model]
    run_context: Callable[[], AbstractContextManager[Any]] | None = None


@dataclass
class DeviceColumn:
    """What was measured on one device. settings: the backend, the precision, threads and versions of libraries.
    profile: None where the device cannot be used; error is the reason then."""

    label: str
    settings: dict[str, str] = field(default_factory=dict)
    profile: Profile | None = None
    error: PrototorchError | None = None

    def as_dict(self) -> dict[str, Any]:
        """The object that ``time --json`` writes of it."""
        if self.profile is None:
            return {"device": self.label, "error": str(self.error)}
        return {"device": self.label, "settings": self.settings, **self.profile.as_dict()}


@dataclass
class DeviceComparison:
    """The columns, in the order in which the devices were named; ratios are to the first that was measured."""

    columns: list[DeviceColumn]

    @property
    def profiles(self) -> list[tuple[DeviceColumn, Profile]]:
        """The columns of the devices that could be used."""
        return [(column, column.profile) for column in self.columns if column.profile is not None]

    @property
    def errors(self) -> list[PrototorchError]:
        """Why other devices could not be used."""
        return [column.error for column in self.columns if column.error is not None]

    def ratios(self) -> dict[str, float]:
        """How many times as fast as the first device each one is, by its column."""
        profiles = self.profiles
        return {column.label: profiles[0][1].step_seconds / profile.step_seconds for column, profile in profiles}

    def as_dict(self) -> dict[str, Any]:
        """For JSON: times in seconds."""
        return {"devices": [column.as_dict() for column in self.columns], "times_as_fast": self.ratios()}

    def lines(self) -> Iterator[str]:
        """The settings and the whole step, then the layers; a line for each device that cannot be used."""
        profiles = self.profiles
        if profiles:
            profile = profiles[0][1]
            yield profile.title.rpartition(", ")[0]
            yield ""
            yield from align_columns(list(self._summary_rows()))
            yield ""
            yield from align_columns(list(self._layer_rows()))
        for column in self.columns:
            if column.error is not None:
                yield f"{column.label}: not measured: {column.error}"

    def _summary_rows(self) -> Iterator[list[str]]:
        profiles, ratios = self.profiles, self.ratios()
        yield ["", *(column.label for column, _ in profiles)]
        for name in dict.fromkeys(name for column, _ in profiles for name in column.settings):
            yield [name, *(column.settings.get(name, "-") for column, _ in profiles)]
        yield ["GFLOP/s of a large product", *(f"{p.machine.flops / 1e9:,.0f}" for _, p in profiles)]
        yield ["GB/s of a large copy", *(f"{p.machine.bandwidth / 1e9:,.1f}" for _, p in profiles)]
        yield ["whole step, ms", *(format_ms(p.step_seconds) for _, p in profiles)]
        yield ["samples a second", *(f"{p.batch / p.step_seconds:,.0f}" for _, p in profiles)]
        yield [f"times as fast as {profiles[0][0].label}", *(f"{ratios[column.label]:.3g}" for column, _ in profiles)]

    def _layer_rows(self) -> Iterator[list[str]]:
        """The milliseconds of each layer's forward, backward and update steps together."""
        profiles = self.profiles
        times = [{entry.name: entry.total for entry in profile.layers} for _, profile in profiles]
        kinds = {entry.name: entry.kind for _, profile in reversed(profiles) for entry in profile.layers}
        yield ["layer", "type", *(f"{column.label} ms" for column, _ in profiles)]
        for name in dict.fromkeys(name for one in times for name in one):
            if any(one.get(name) for one in times):
                yield [name, kinds[name], *(format_ms(one[name]) if one.get(name) else "-" for one in times)]


@contextmanager
def without_cudnn_context() -> Iterator[None]:
    """Inside, models compiled for a GPU use the package's own kernels alone."""
    before = os.environ.get(CUDNN_VAR)
    os.environ[CUDNN_VAR] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[CUDNN_VAR]
        else:
            os.environ[CUDNN_VAR] = before


def compare_devices(
    contenders: Sequence[Contender], phase: str | None = None, batch: int | None = None, rounds: int | None = None
) -> DeviceComparison:
    """Measure a step on each device; see `profile_step` for the other arguments.

    A device that cannot be used has a column with the error. Raises UsageError where two names are one device.
    """
    columns: list[DeviceColumn] = []
    names: dict[str, str] = {}
    for contender in contenders:
        column = DeviceColumn(contender.label)
        columns.append(column)
        try:
            if contender.run_context is None:
                _measure(column, contender.open_model, phase, batch, rounds, names)
            else:
                with contender.run_context():
                    _measure(column, contender.open_model, phase, batch, rounds, names)
        except (BackendError, ResourceError) as error:
            column.error = error
    return DeviceComparison(columns)


def _measure(
    column: DeviceColumn,
    open_model: Callable[[], Model],
    phase: str | None,
    batch: int | None,
    rounds: int | None,
    names: dict[str, str],
) -> None:
    model = open_model()
    backend = model.trainer.plan_cache.backend
    other = names.setdefault(backend.name, column.label)
    if other != column.label:
        raise UsageError(f"--device: {column.label!r} is the device that {other!r} is here ({backend.name}): name one")
    column.settings = _settings(backend)
    column.profile = profile_step(model, phase, batch, rounds)


def _settings(backend: Any) -> dict[str, str]:
    """What the numbers of a column hold for."""
    device_facts: Mapping[str, Any] = describe_devices()["cuda" if backend.has_device_memory else "cpu"]
    settings = {"runs on": backend.name, "precision": backend.precision.name}
    if not backend.has_device_memory:
        settings["threads"] = str(backend.threads)
    return {**settings, **{name: str(device_facts[name]) for name in _LIBRARIES if name in device_facts}}
