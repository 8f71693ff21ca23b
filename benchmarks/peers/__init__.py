"""The contenders by name, without importing any of them: what they are called, what they need, what they can do."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from dataclasses import dataclass, field
from typing import Any

from benchmarks.contender import Contender, Setup
from benchmarks.workloads import Workload

OURS = "prototorch"


@dataclass(frozen=True)
class PeerEntry:
    """A contender: a framework in one of its modes.

    peer: the framework's name on the command line. place: module and class. modes: how the class is set. needs: the
    packages, all of which must be installed. trains: whether it trains. layout: whether it differs from the others for
    images only. always: whether it takes part without being named by its own name.
    """

    name: str
    peer: str
    place: str
    needs: tuple[str, ...] = ()
    modes: dict[str, Any] = field(default_factory=dict)
    trains: bool = True
    infers: bool = True
    layout: bool = False
    needs_export: bool = False
    always: bool = True

    def missing(self) -> list[str]:
        """The packages that are not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]

    def versions(self) -> dict[str, str]:
        """The versions of its packages."""
        return {name: importlib.metadata.version(name) for name in self.needs}

    def takes(self, row: Workload, training: bool) -> bool:
        """Whether it has a line of its own here."""
        return (self.trains if training else self.infers) and (row.has_image_input or not self.layout)

    def make(self, row: Workload, setup: Setup) -> Contender:
        """The contender itself; imports its framework."""
        module, _, name = self.place.partition(":")
        return getattr(importlib.import_module(module), name)(row, setup, **self.modes)


def _torch(name: str, modes: dict[str, Any], **more: bool) -> PeerEntry:
    return PeerEntry(name, "torch", "benchmarks.peers.torch_peer:TorchContender", ("torch",), modes, **more)


ENTRIES = {
    entry.name: entry
    for entry in (
        PeerEntry(OURS, OURS, "benchmarks.prototorch_contender:PrototorchContender"),
        _torch("torch", {"fused": False}),
        _torch("torch-fused", {}, infers=False),
        _torch("torch-channels_last", {"channels_last": True}, layout=True),
        _torch("torch-compile", {"compiled": True}, always=False),
        PeerEntry("keras-jax", "keras-jax", "benchmarks.peers.keras_peer:KerasJax", ("keras", "jax")),
        PeerEntry("onnxruntime", "onnxruntime", "benchmarks.peers.onnxruntime_peer:OnnxRuntime",
              ("onnxruntime", "onnx", "torch"), trains=False, needs_export=True),
        PeerEntry("openvino", "openvino", "benchmarks.peers.openvino_peer:OpenVino",
              ("openvino", "onnx", "torch"), trains=False, needs_export=True),
    )
}  # fmt: skip


def select_entries(peers: list[str], with_compile: bool = False) -> tuple[list[PeerEntry], list[str]]:
    """The contenders that these names stand for, ours first, and a line for each that is not installed.

    A framework's name stands for all its modes (``torch-compile``, which is slow to begin, only if ``compiled``); the
    name of a mode for that one. Raises KeyError for a name that is none.
    """
    names = {e.peer for e in ENTRIES.values()} | set(ENTRIES)
    for name in peers:
        if name not in names:
            raise KeyError(name)
    selected, notes = [ENTRIES[OURS]], []
    for entry in ENTRIES.values():
        is_selected = entry.name in peers or (entry.peer in peers and (entry.always or with_compile))
        if entry.name == OURS or not is_selected:
            continue
        missing = entry.missing()
        if missing:
            notes.append(f"{entry.name} is left out: {', '.join(missing)} not installed")
        else:
            selected.append(entry)
    return selected, notes
