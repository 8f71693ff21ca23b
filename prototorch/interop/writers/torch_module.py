"""A model as a Python file for PyTorch, with its ``state_dict`` beside it."""

from __future__ import annotations

import os

from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.interop.torch.codegen.module_source import torch_source
from prototorch.interop.writers.output_format import OutputFormat
from prototorch.interop.writers.torch_file import write_arrays
from prototorch.model.foreign_files import ModelToWrite

__all__ = ["FORMAT", "write_torch_module"]


def write_torch_module(path: str, model: ModelToWrite, *, include_preprocess: bool = False) -> tuple[str, ...]:
    """Write ``NAME.py``, which needs PyTorch alone, and its weights ``NAME.pt``; returns both paths.

    include_preprocess: whether the layers of ``preprocess`` are a part of the module.
    Raises UsageError that names the layers which PyTorch cannot express, SnapshotError where a file cannot be written.
    """
    stem = os.path.splitext(path)[0]
    header = [f"{key}: {value}" for key, value in model.metadata.items()]
    if model.classes:
        header.append(f"classes: {', '.join(model.classes)}")
    if model.net.preprocess and not include_preprocess:
        layers = ", ".join(type(layer).__name__ for layer in model.net.preprocess)
        header.append(f"the preprocessing ({layers}) is not a part of it")
    text, state = torch_source(
        model.net,
        model.weights,
        model.shapes,
        include_preprocess=include_preprocess,
        state_file=f"{os.path.basename(stem)}.pt",
        header=header,
    )
    files = write_arrays(f"{stem}.pt", state, {})
    write_bytes(f"{stem}.py", text.encode("ascii"))
    return (f"{stem}.py", *files)


FORMAT = OutputFormat("torch", "PyTorch module", (".py",), True, write_torch_module, ("include_preprocess",))
