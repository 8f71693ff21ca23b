"""What an importer's module declares: a `ModelFormat` at its top, with a function that recognizes models and one that
reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from prototorch.base.index import Extension
from prototorch.interop.imported_model import ImportedModel
from prototorch.model.loading.read.file_format import UnknownFile

__all__ = ["ModelFormat"]


@dataclass(frozen=True)
class ModelFormat(Extension):
    """A format of whole models.

    name: short ("onnx"). title: as messages name it ("ONNX"). recognize: whether a file holds a whole model of this
    format, by its content; it reads little. load: ``(path, **options)`` -> the model, or one of prototorch's errors
    that names all that cannot be expressed. options: the names of the keyword arguments that load takes:
    ``input_shapes``, the sizes that the file leaves open, by input; ``fixed_inputs``, inputs that become constants;
    ``batch_axis``. shapes_of_settings: the shapes of inputs that settings of the command line (``--set``) give, by
    input; None for a format that takes none.
    """

    name: str
    title: str
    recognize: Callable[[UnknownFile], bool]
    load: Callable[..., ImportedModel]
    options: tuple[str, ...] = ()
    shapes_of_settings: Callable[[Sequence[str]], Mapping[str, Sequence[int]]] | None = None
