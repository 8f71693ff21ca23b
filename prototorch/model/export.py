"""A model written in the formats of other systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import numpy as np

from prototorch.graph.net import Net
from prototorch.interop.writers import write_model
from prototorch.interop.writers.output_format import ModelToWrite
from prototorch.schema.neutral_arguments import explain_arguments
from prototorch.train.argument_checks import check_path
from prototorch.train.config import Fit

__all__ = ["ModelExport"]


class ModelExport:
    """The part of `prototorch.model.model.Model` that writes other systems' files."""

    net: Net
    fit_block: Fit | None
    weight_origin: Mapping[str, str]

    def to_text(self) -> str:
        """The model as text; see `prototorch.model.model.Model.to_text`."""
        raise NotImplementedError

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The weights by name; see `prototorch.model.weights.ModelWeights.weights`."""
        raise NotImplementedError

    @explain_arguments(aliases={"filepath": "path"})
    def export(self, path: str | PathLike[str], format: str | None = None, *,
               shapes: Mapping[str, Sequence[int]] | None = None, **options: Any) -> tuple[str, ...]:  # fmt: skip
        """Write the model for another system; returns the paths of the files.

        Args:
            format: "onnx", "torch" or another format that is written; default: that of the path's ending.
            shapes: of inputs whose sizes the text leaves open, by name, without the batch dimension; for a format with
                ``include_preprocess`` that of the first input before ``preprocess`` as well.
            options: of the format. ONNX: ``opset`` (13 to 25, default 18), ``include_preprocess`` (whether the layers
                of ``preprocess`` are a part of the graph; default False), ``external_data`` (whether the weights are a
                file of their own, ``PATH.data``; default: from 2 GB on).

        Raises UsageError for an unknown format or option, a missing package, and a layer that the format cannot
        express; SnapshotError where a file cannot be written. An older file is then as it was.
        """
        check_path(path, "model.onnx")
        block = self.fit_block
        classes = (() if block is None or block.data is None else tuple(block.data.classes)) or self.net.class_names
        model = ModelToWrite(self.net, dict(self.weights), self.to_text(), classes, dict(shapes or {}),
                             dict(self.weight_origin))  # fmt: skip
        return write_model(fspath(path), model, format, **options)
