"""Looking at a model without training it: checking, summarising, predicting from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prototorch.data.bounded import read_head
from prototorch.data.folders import pictures_below
from prototorch.data.npz import is_npy, is_zip, read_npy, read_npz
from prototorch.data.pictures import PictureReader
from prototorch.errors import DataError, ModelError, TextError, UsageError
from prototorch.load import load_model
from prototorch.model import Model
from prototorch.text.mistakes import Mistake, Report
from prototorch.train.feed import target_of
from prototorch.train.summary import Summary, probe_specs, traced
from prototorch.train.summary import summary as summarised


def checked(source: str, overrides: Sequence[str] = ()) -> Model:
    """A model whose text, shapes, compile and fit blocks have all been checked. Raises TextError with every mistake."""
    model = load_model(source, overrides=overrides)
    report = Report()
    traced(model.net, 1, report)
    report.raise_if_any()
    if model.compile_block is not None and model.compile_block.loss:
        try:
            specs = probe_specs(model.net, 1)
            outputs = model.trainer.program.output_specs(specs)
            for term in model.trainer.program.terms:
                target_of(term.loss, outputs[term.output])
        except (UsageError, ModelError) as exc:
            raise TextError([Mistake(f"compile: {exc}")]) from exc
    return model


def summary(model: Model, batch: int | None = None) -> Summary:
    """What `Model.summary` prints, as data: for a batch size also the memory of a step."""
    return summarised(model.net, model.trainer.program, batch)


@dataclass
class Predictions:
    """Outputs for named samples, with the class names where they are known."""

    names: list[str]
    outputs: dict[str, np.ndarray]
    classes: Sequence[str] = ()
    logits: bool = True

    def lines(self, top: int) -> list[str]:
        """A line for each sample: the likeliest classes of an output of scores, else the numbers."""
        made = []
        for i, name in enumerate(self.names):
            shown = []
            for output, values in self.outputs.items():
                row = values[i]
                text = (
                    self._scores(row, top)
                    if row.ndim == 1 and row.size > 1
                    else np.array2string(row, precision=4, threshold=20)
                )
                shown.append(text if len(self.outputs) == 1 else f"{output}: {text}")
            made.append(f"{name}: " + "  ".join(shown))
        return made

    def _scores(self, row: np.ndarray, top: int) -> str:
        scores = row
        if self.logits:
            e = np.exp(row - row.max())
            scores = e / e.sum()
        order = np.argsort(-scores, kind="stable")[:top]
        named = [self.classes[k] if k < len(self.classes) else str(k) for k in order]
        return "  ".join(f"{n} {scores[k]:.3f}" for n, k in zip(named, order, strict=True))


def predictions(model: Model, what: Sequence[str], batch_size: int = 32) -> Predictions:
    """Predictions for picture files, folders of them, or an array file. Raises DataError for what cannot be read."""
    names: list[str] = []
    arrays: list[np.ndarray] = []
    shape = model.net.inputs[0].shape
    channels = shape[0] if len(shape) == 3 else None
    sized = any(type(layer).__name__ in ("Resizing", "CenterCrop") for layer in model.net.preprocess)
    size = None if sized or len(shape) != 3 or None in shape[1:] else (shape[1], shape[2])
    reader = PictureReader(size, "gray" if channels == 1 else "rgb")  # type: ignore[arg-type]
    whole: Mapping[str, np.ndarray] | np.ndarray | None = None
    for item in what:
        path = Path(item)
        if path.is_dir():
            found = pictures_below(path)
            if not found:
                raise DataError(f"{item}: holds no pictures")
        elif path.is_file():
            head = read_head(path, 16)
            if is_npy(head) or is_zip(head):
                whole = read_npy(path) if is_npy(head) else read_npz(path)
                continue
            found = [str(path)]
        else:
            raise DataError(f"{item}: no such file or folder")
        for one in found:
            names.append(one)
            arrays.append(reader.read(one))
    classes = _classes(model)
    if whole is not None:
        if arrays:
            raise UsageError("pictures and array files cannot be predicted in one call")
        held: Any = whole if isinstance(whole, np.ndarray) or len(whole) > 1 else next(iter(whole.values()))
        outputs = model.predict(held, batch_size=batch_size)
        first = outputs if isinstance(outputs, np.ndarray) else next(iter(outputs.values()))
        names = [str(i) for i in range(len(first))]
        return Predictions(names, _named(model, outputs), classes, _logits(model))
    if len({a.shape for a in arrays}) == 1:
        return Predictions(
            names, _named(model, model.predict(np.stack(arrays), batch_size=batch_size)), classes, _logits(model)
        )
    each = [_named(model, model.predict(a[None], batch_size=1)) for a in arrays]
    return Predictions(names, {k: np.concatenate([e[k] for e in each]) for k in each[0]}, classes, _logits(model))


def _named(model: Model, outputs: Any) -> dict[str, np.ndarray]:
    return outputs if isinstance(outputs, dict) else {model.net.outputs[0]: outputs}


def _classes(model: Model) -> Sequence[str]:
    block = model.fit_block
    if block is None or block.data is None:
        return ()
    return tuple(block.data.classes)


def _logits(model: Model) -> bool:
    """Whether the outputs are scores that a softmax turns into probabilities."""
    losses = model.compile_block.loss if model.compile_block is not None else ()
    return any(getattr(one.type, "from_logits", False) for one in losses)


__all__ = ["Predictions", "Summary", "checked", "predictions", "summary"]
