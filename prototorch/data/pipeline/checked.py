"""The third stage: columns whose values can be computed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prototorch.data.pipeline.column_match import ColumnMatch, Feeding
from prototorch.data.pipeline.preprocessed import PreprocessedColumns
from prototorch.data.pipeline.signature import ModelSignature
from prototorch.errors import DataError, ShapeError
from prototorch.layers.channels import COLOR_CHANNELS
from prototorch.spec import Spec
from prototorch.text.diagnostics import locate

__all__ = ["CheckedColumns"]


@dataclass(frozen=True)
class CheckedColumns:
    """Columns that are there as the data set declares them, and finite as far as they are in memory."""

    signature: ModelSignature
    columns: ColumnMatch
    feeding: Feeding

    def preprocess(self) -> PreprocessedColumns:
        """The columns with the spec that preprocessing gives them. Raises DataError where it is not the input's."""
        signature, columns = self.signature, self.columns
        shapes, specs, name = dict(signature.inputs), {}, signature.preprocessed
        if name is not None:
            raw = self._raw_spec(columns.dataset.columns[columns.inputs[name]], name)
            specs[name] = self._preprocessed_spec(raw, name)
            shapes[name] = raw.shape
        return PreprocessedColumns(signature, columns, self.feeding, shapes, specs)

    def _raw_spec(self, raw: Spec, name: str) -> Spec:
        """The spec of samples as preprocessing reads them: images have their channels where the input has them."""
        is_first, shape = name == next(iter(self.signature.inputs)), raw.shape
        if not is_first or not self.signature.has_channels_last or len(shape) != 3:
            return raw
        is_channels_first = shape[0] in COLOR_CHANNELS and shape[2] not in COLOR_CHANNELS
        return Spec((*shape[1:], shape[0]), raw.dtype) if is_channels_first else raw

    def _preprocessed_spec(self, raw: Spec, name: str) -> Spec:
        """The spec of a preprocessed batch of one sample. Raises DataError where it is not the expected one."""
        expected, place = self.signature.inputs[name], self.columns.dataset.name
        try:
            spec = self.signature.preprocess(Spec((1, *raw.shape), raw.dtype))
        except ShapeError as exc:
            cause = exc.diagnostic.message if exc.diagnostic is not None else exc
            error = DataError(f"{place}: a sample of shape {list(raw.shape)} cannot be preprocessed: {cause}")
            raise locate(error, exc.diagnostic.span if exc.diagnostic is not None else None) from exc
        shape = spec.shape[1:]
        if len(shape) != len(expected) or any(e not in (None, n) for n, e in zip(shape, expected, strict=True)):
            sizes = ", ".join("none" if n is None else str(n) for n in expected)
            error = DataError(
                f"{place}: a sample of shape {list(raw.shape)} has shape {list(shape)} after preprocess, "
                f"expected [{sizes}] for the input {name!r}; {_shape_advice(raw.shape, shape, expected)}"
            )
            raise locate(error, self.signature.preprocess_span)
        return spec


def _shape_advice(raw: Sequence[int], shape: Sequence[int], expected: Sequence[int | None]) -> str:
    """What to do about samples that have another shape after preprocessing than the input."""

    def fits(sizes: Sequence[int]) -> bool:
        return len(sizes) == len(expected) and all(e in (None, n) for n, e in zip(sizes, expected, strict=True))

    if fits((1, *shape)):
        batch = ", ".join(["n", "1", *map(str, raw)])
        return f"the axis of the channels is missing: give x[:, np.newaxis], of shape [{batch}]"
    if len(shape) == 3 and fits((shape[2], *shape[:2])):
        return "the channels are the last axis and must be the first: give np.moveaxis(x, -1, 1)"
    return "add a Resizing or Reshape layer to preprocess"
