"""What a conversion reads: a model of ours, a whole model of another system, or a file of weights."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from prototorch.data.safe_io import printable_path
from prototorch.errors import ModelFileError, UsageError
from prototorch.graph.net import Net
from prototorch.graph.probe import trace_net
from prototorch.interop.imported_model import ImportedModel
from prototorch.interop.importers import find_importer
from prototorch.interop.text_generation import NamePolicy, generate_text
from prototorch.model.load import check_text_file, find_model_file, is_saved, load_model, make_model
from prototorch.model.loading.layout.laid_out import LaidOutWeights
from prototorch.model.loading.read.read_file import read_weights
from prototorch.model.loading.read.source import CheckpointSource
from prototorch.model.loading.weight_file import WeightFile
from prototorch.model.model import Model
from prototorch.model.name_rules import Rules
from prototorch.model.weights_block import Weights
from prototorch.text.dialects import find_dialect
from prototorch.text.reader import read_file
from prototorch.text.syntax_tree import Field, to_value_node

__all__ = ["ConversionSource", "WeightOptions", "open_source"]

_FLAGS = {"input_shapes": "--input-shape", "fixed_inputs": "--fixed-input", "batch_axis": "--batch-axis",
          "weights": "--weights"}  # fmt: skip
_MAX_CLASSES = 50  # whose names stand in a text


@dataclass(frozen=True)
class WeightOptions:
    """How weights are matched with ``--model``: see `Model.load_weights`."""

    rules: Rules | None = None
    system: str | None = None
    by_order: bool = False
    by_name: bool = False
    skip_mismatch: bool = False
    except_: Sequence[str] = ()
    allow_download: bool | None = None
    data_format: str | None = None


@dataclass
class ConversionSource:
    """What was read.

    model: ours, with its weights; None for weights without a net. text: the model's text, where that is not what
    `Model.to_text` gives. has_weights: False for a text, whose weights are initial ones. file, match: of weights.
    shapes: of inputs of unknown size. notes: what a user must know, a sentence each.
    """

    path: str
    model: Model | None = None
    text: str | None = None
    has_weights: bool = True
    file: WeightFile | None = None
    match: LaidOutWeights | None = None
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def open_source(
    path: str,
    model: str | None,
    overrides: Sequence[str],
    matching: WeightOptions,
    import_options: Mapping[str, Any],
    match_only: bool = False,
) -> ConversionSource:
    """Open what is to be converted. model: the text or saved model whose weights the file has; None where the file
    itself tells the net, or where only its arrays are wanted. import_options: see `ModelFormat.options`. match_only:
    weights are matched, and not loaded, so that they need not fit.

    Raises FileError, ModelFileError, TextError, WeightsError, as the readers do.
    """
    if model is not None:
        _check_options(path, import_options, ())
        return _weights_for(path, model, overrides, matching, match_only)
    if not os.path.exists(path) or _is_own(path):
        own = find_model_file(path)
        _check_options(path, import_options, ("input_shapes",))
        shapes = import_options.get("input_shapes", {})
        source = load_model(own, overrides=overrides)
        has_weights = is_saved(own) or source.loads_weights
        return ConversionSource(path, source, has_weights=has_weights, shapes=shapes)
    importer = find_importer(path)
    if overrides:
        if importer is None or importer.shapes_of_settings is None:
            raise UsageError(
                "--set needs a text of ours: it sets its params; of a net of Caffe it gives sizes of inputs"
            )
        stated = {**import_options.get("input_shapes", {}), **importer.shapes_of_settings(overrides)}
        import_options = {**import_options, "input_shapes": stated}
    if importer is not None:
        _check_options(path, import_options, importer.options)
        return _imported(path, importer.load(path, **import_options))
    _check_options(path, import_options, ())
    file = read_weights(path)
    notes = [f"left out: {name} ({reason})" for name, reason in file.skipped.items()]
    return ConversionSource(path, file=file, notes=notes)


def _check_options(path: str, options: Mapping[str, Any], supported: Sequence[str]) -> None:
    for name in options:
        if name not in supported:
            flag = _FLAGS[name]
            reason = "nets of Caffe" if name == "weights" else "models that leave this open"
            raise UsageError(f"{flag} has no meaning for {printable_path(path)}: it is for {reason}")


def _is_own(path: str) -> bool:
    """Whether a file is a saved model or a text of ours."""
    if is_saved(path):
        return True
    return path.endswith((".proto", ".prototxt")) and find_dialect(read_file(check_text_file(path))) is None


def _weights_for(
    path: str, model: str, overrides: Sequence[str], matching: WeightOptions, match_only: bool
) -> ConversionSource:
    """Weights of a net that a text or a saved model tells; ``path`` is what `Model.load_weights` takes."""
    target = load_model(model, weights=False, overrides=overrides)
    source = ConversionSource(path, target)
    if match_only:
        block = Weights.from_source(path, matching.except_, matching.rules)
        weights = CheckpointSource(block, matching.system, matching.data_format, matching.allow_download)
        names = weights.read(target.net, check=False).names(
            target.net, by_order=matching.by_order, except_=matching.except_
        )
        source.match = names.lay_out()
        report = source.match.report()
    else:
        report = target.load_weights(
            path,
            by_name=matching.by_name,
            skip_mismatch=matching.skip_mismatch,
            rules=matching.rules,
            except_=matching.except_,
            system=matching.system,
            by_order=matching.by_order,
            allow_download=matching.allow_download,
            data_format=matching.data_format,
        )
    source.notes = str(report).splitlines()
    return source


def _imported(path: str, imported: ImportedModel) -> ConversionSource:
    classes, notes = imported.classes, list(imported.notes)
    sections = [Field("class_names", to_value_node(list(classes)))] if 0 < len(classes) <= _MAX_CLASSES else []
    if len(classes) > _MAX_CLASSES:
        notes.append(f"the names of the {len(classes)} classes are in the saved model, not in the text")
    sections = [*sections, *imported.sections]
    # a file with the weights, patterns in compile, and other files of models inside a model have the layers' own names
    has_own_names = not imported.weights or imported.sections or imported.has_inner_models
    names: NamePolicy = "all" if has_own_names else "auto"
    comments = [f"From {printable_path(path)}.", *notes]
    generated = generate_text(imported.net, names=names, sections=sections, comments=comments)
    keys = {n.name: generated.names.get(n.name, n.name) for n in imported.net.nodes if n.layer.weights is None}
    weights = {_new_name(name, keys): array for name, array in imported.weights.items()}
    net = replace(generated.net, class_names=classes)
    model = _model_with(net, weights, path) if weights else make_model(net, {})
    return ConversionSource(path, model, generated.text, has_weights=bool(weights), notes=notes)


def _new_name(name: str, keys: Mapping[str, str]) -> str:
    """The name of a weight whose layer has another name now; the longest name that begins it is its layer's."""
    parts = name.split("/")
    for end in range(len(parts) - 1, 0, -1):
        key = "/".join(parts[:end])
        if key in keys:
            return "/".join((keys[key], *parts[end:]))
    return name


def _model_with(net: Net, weights: Mapping[str, Any], path: str) -> Model:
    """A model of a net with these weights. Raises ModelFileError unless they are all of the net's."""
    model = make_model(net, {})
    for name, array in weights.items():
        model.variables.create(name, np.array(array), own=True)
    if not any(net.unknown_sizes()):
        expected = trace_net(net, 1).weights
        if wrong := sorted(set(weights) ^ set(expected)):
            raise ModelFileError(
                f"{printable_path(path)}: its weights are not those of its net: {', '.join(wrong[:5])}"
            )
        model.build()
    return model
