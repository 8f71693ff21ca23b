"""What an importer's module declares: `IMPORTER`, with a function that recognizes models and one that reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prototorch.interop.imported_model import ImportedModel
from prototorch.interop.readers.file_format import UnknownFile

__all__ = ["ModelFormat"]


@dataclass(frozen=True)
class ModelFormat:
    """A format of whole models.

    name: short ("onnx"). title: as messages name it ("ONNX"). recognize: whether a file holds a whole model of this
    format, by its content; it reads little. load: ``(path, **options)`` -> the model, or one of prototorch's errors
    that names all that cannot be expressed. options: the names of the keyword arguments that load takes:
    ``input_shapes``, the sizes that the file leaves open, by input; ``fixed_inputs``, inputs that become constants;
    ``batch_axis``.
    """

    name: str
    title: str
    recognize: Callable[[UnknownFile], bool]
    load: Callable[..., ImportedModel]
    options: tuple[str, ...] = ()
