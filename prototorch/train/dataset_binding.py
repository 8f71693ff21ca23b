"""Binding a data set to a model: the shapes, targets and index ranges that the model expects of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from prototorch.data.binding import BoundDataset, IndexRange, TargetSpec, bind
from prototorch.data.dataset import Dataset
from prototorch.errors import DataError, ModelError, ShapeError
from prototorch.graph.net import Net
from prototorch.losses.function_loss import FunctionLoss
from prototorch.schema.block_source import find_span
from prototorch.spec import Spec
from prototorch.text.diagnostics import locate, located
from prototorch.train.loss_terms import LossTerm
from prototorch.train.model_notes import output_activation
from prototorch.train.plan_cache import PlanCache
from prototorch.train.preprocessing import Preprocessor

__all__ = ["ModelBinding", "bind_dataset", "index_inputs", "input_specs", "input_targets", "make_target",
           "targets_of_any_size"]  # fmt: skip

Shape = tuple[int | None, ...]


class ModelBinding(NamedTuple):
    """A data set as a model sees it, the targets that the losses expect (by output), and the net's input specs for a
    batch of one sample."""

    dataset: BoundDataset
    targets: dict[str, TargetSpec]
    input_specs: dict[str, Spec]


def bind_dataset(plan_cache: PlanCache, preprocessor: Preprocessor, dataset: Dataset, supervised: bool) -> ModelBinding:
    """Bind a data set to a model, with its targets where ``supervised``.

    Raises DataError for columns that are missing or do not fit, with both shapes, and ShapeError where no layer takes
    the shape of the data.
    """
    net, terms = plan_cache.net, plan_cache.loss_terms
    inputs: dict[str, Shape] = {i.name: i.shape for i in net.inputs}
    if preprocessor.has_layers:
        column = preprocessor.name if preprocessor.name in dataset.inputs else (*dataset.inputs, "")[0]
        if column in dataset.columns:
            inputs[preprocessor.name] = _raw_shape(preprocessor, dataset, column, inputs[preprocessor.name])
    bound = bind(dataset, inputs)
    specs = input_specs(net, bound, preprocessor, 1)
    if not supervised:
        indices = index_inputs(net, preprocessor)
        return ModelBinding(bind(dataset, inputs, None, None, indices), {}, specs)
    for term in terms:
        if term.target is not None:
            with located(term.target_span):
                dataset.column_spec(term.target)
    outputs = plan_cache.output_specs(specs)
    from_inputs = input_targets(plan_cache, bound)
    terms = _with_target_shapes(plan_cache, dataset, outputs, from_inputs)
    targets = {t.output: _describe_output(net, t.output, make_target(t, outputs[t.output]))
               for t in terms if t.output not in from_inputs}  # fmt: skip
    columns = {t.output: t.target for t in terms if t.target is not None}
    return ModelBinding(bind(dataset, inputs, targets, columns, index_inputs(net, preprocessor)), targets, specs)


def _with_target_shapes(
    plan_cache: PlanCache, dataset: Dataset, outputs: Mapping[str, Spec], from_inputs: Mapping[str, str]
) -> tuple[LossTerm, ...]:
    """The losses; those that are functions take targets of the data's shape. It is fixed by the first data.

    Raises DataError where later data have another one.
    """
    terms = []
    learned = [t for t in dict.fromkeys(term.output for term in plan_cache.loss_terms) if t not in from_inputs]
    for term in plan_cache.loss_terms:
        if isinstance(term.loss, FunctionLoss) and term.output in learned and len(learned) == len(dataset.targets):
            by_order = dict(zip(learned, dataset.targets, strict=True))
            column = term.target or (term.output if term.output in dataset.targets else by_order[term.output])
            shape, expected = dataset.columns[column].shape, outputs[term.output].shape[1:]
            if term.target_shape is None and (*shape, 1) != expected and shape not in (expected, (*expected, 1)):
                term = replace(term, target_shape=shape)
        terms.append(term)
    plan_cache.steps.loss_terms = tuple(terms)
    return tuple(terms)


def targets_of_any_size(plan_cache: PlanCache, binding: ModelBinding) -> dict[str, TargetSpec]:
    """The targets of a binding, with None for the sizes that follow those that the net's inputs leave open."""
    open_axes = {i.name: [1 + axis for axis, n in enumerate(i.shape) if n is None] for i in plan_cache.net.inputs}
    if not any(open_axes.values()) or not binding.targets:
        return binding.targets
    larger = {
        name: replace(spec, shape=tuple(n + 16 * (axis in open_axes[name]) for axis, n in enumerate(spec.shape)))
        for name, spec in binding.input_specs.items()
    }
    try:
        outputs = plan_cache.output_specs(larger)
    except ModelError:  # the net takes this size alone
        return binding.targets
    terms = {term.output: term for term in plan_cache.loss_terms}
    targets = {}
    for name, target in binding.targets.items():
        other = make_target(terms[name], outputs[name]).shape
        sizes = (a if a == b else None for a, b in zip(target.shape, other, strict=True))
        targets[name] = replace(target, shape=tuple(sizes))
    return targets


def make_target(term: LossTerm, output: Spec) -> TargetSpec:
    """The targets that a loss expects for an output of this spec."""
    loss, spec = term.loss, term.target_spec(output)
    classes = output.shape[loss.class_axis] if loss.target_kind == "classes" else None
    return TargetSpec(
        spec.shape[1:],
        loss.target_kind,
        classes,
        type(loss).__name__,
        loss.class_axis,
        loss.ignored_class,
        loss.target_bounds,
        max_classes=loss.max_classes,
    )


def _describe_output(net: Net, output: str, target: TargetSpec) -> TargetSpec:
    """A target with what is known of the layers that give the output."""
    node = next((node for node in net.nodes if output in node.tops), None)
    end = output_activation(net, output)
    deciding = node if end is None else end.node
    if deciding is None:
        return target
    place = "" if deciding.span is None else f" ({deciding.span})"
    target = replace(target, layer=f"{deciding.name!r}{place}")
    return target if end is None else replace(target, activation=end.name, bounds=end.bounds)


def index_inputs(net: Net, preprocessor: Preprocessor) -> dict[str, IndexRange]:
    """The inputs whose elements are indices into a table of a layer, as they are in the data: name -> range."""
    preprocessed = preprocessor.name if preprocessor.has_layers else None
    ranges = net.index_inputs().items()
    return {name: IndexRange(count, layer) for name, (layer, count) in ranges if name != preprocessed}


def input_targets(plan_cache: PlanCache, data: BoundDataset) -> dict[str, str]:
    """Outputs whose target is one of the inputs, as it is after preprocessing: output -> input column."""
    terms = plan_cache.loss_terms
    return {t.output: t.target for t in terms if t.target is not None and t.target in data.inputs}


def input_specs(net: Net, data: BoundDataset, preprocessor: Preprocessor, batch: int) -> dict[str, Spec]:
    """The specs of the net's inputs for a batch of this size."""
    specs = {}
    for node in net.inputs:
        column = data.columns[data.input_columns[node.name]]
        spec = Spec((batch, *column.shape), column.dtype)
        if preprocessor.has_layers and node.name == preprocessor.name:
            spec = preprocessor.output_spec(spec)
        specs[node.name] = Spec(spec.shape, node.dtype)
    return specs


def _raw_shape(preprocessor: Preprocessor, dataset: Dataset, column: str, expected: Shape) -> Shape:
    """The shape of a column before preprocessing. Raises DataError where preprocessing does not give the expected."""
    raw = dataset.columns[column]
    try:
        shape = preprocessor.output_spec(Spec((1, *raw.shape), raw.dtype)).shape[1:]
    except ShapeError as exc:
        cause = exc.diagnostic.message if exc.diagnostic is not None else exc
        error = DataError(f"{dataset.name}: a sample of shape {list(raw.shape)} cannot be preprocessed: {cause}")
        raise locate(error, exc.diagnostic.span if exc.diagnostic is not None else None) from exc
    if len(shape) != len(expected) or any(e not in (None, n) for n, e in zip(shape, expected, strict=True)):
        wanted = ", ".join("none" if n is None else str(n) for n in expected)
        error = DataError(
            f"{dataset.name}: a sample of shape {list(raw.shape)} has shape {list(shape)} after preprocess, "
            f"expected [{wanted}] for the input {preprocessor.name!r}; add a Resizing or Reshape layer to preprocess"
        )
        raise locate(error, find_span(net.preprocess[-1]) if (net := preprocessor.net).preprocess else None)
    return raw.shape
