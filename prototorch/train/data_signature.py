"""What a model expects of data, as a `ModelSignature`: from its net, losses and preprocessing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from prototorch.data.binding import BoundDataset
from prototorch.data.dataset import Dataset
from prototorch.data.pipeline.signature import IndexRange, LearnedOutput, ModelSignature, TargetSpec
from prototorch.data.text_source import TextInput, TextKind
from prototorch.errors import ModelError, UsageError
from prototorch.graph.net import InputNode, Net
from prototorch.layers.image import Resizing
from prototorch.layers.tokenizer import Tokenizer
from prototorch.losses.function_loss import FunctionLoss
from prototorch.schema.block_source import find_span
from prototorch.spec import Spec
from prototorch.train.loss_terms import LossTerm
from prototorch.train.model_notes import output_activation
from prototorch.train.plan_cache import PlanCache
from prototorch.train.preprocessing import Preprocessor

__all__ = ["input_specs", "input_targets", "make_target", "model_signature", "text_inputs"]


def model_signature(plan_cache: PlanCache, preprocessor: Preprocessor) -> ModelSignature:
    """What a compiled model expects of data; of one that is not compiled, which learns nothing, what it predicts for.

    The targets of losses that are functions have the shape of the first data, which `ModelSignature.targets` sets.
    """
    net, terms = plan_cache.net, plan_cache.loss_terms
    inputs = {node.name: node.shape for node in net.inputs}
    terms = tuple(t for t in terms if t.loss.needs_target)
    names = tuple(dict.fromkeys(t.target or t.output for t in terms if t.target not in inputs)) or net.outputs
    preprocessed = preprocessor.name if preprocessor.has_layers else None
    return ModelSignature(
        inputs=inputs,
        dtypes={node.name: node.dtype for node in net.inputs},
        outputs=names,
        learned=tuple(LearnedOutput(t.output, t.target, t.target_span) for t in terms),
        indices={name: IndexRange(n, layer) for name, (layer, n) in net.index_inputs().items() if name != preprocessed},
        preprocessed=preprocessed,
        preprocess=preprocessor.output_spec,
        preprocess_span=find_span(net.preprocess[-1]) if net.preprocess else None,
        targets=partial(_targets, plan_cache),
        widen=partial(_widen, plan_cache),
        text_names=tuple(net.tokenizers()),
        texts=partial(text_inputs, net),
        text_kind=partial(_predicted_kind, plan_cache),
        cover_size=_cover_size(net),
        resizes_images=any(layer.type_name() in ("Resizing", "CenterCrop") for layer in net.preprocess),
        has_channels_last=bool(net.inputs) and net.inputs[0].has_channels_last,
        converts_color=any(layer.type_name() == "ColorChannels" for layer in net.preprocess),
        seed=plan_cache.seed,
    )


def _targets(
    plan_cache: PlanCache, dataset: Dataset, specs: Mapping[str, Spec], from_inputs: Mapping[str, str]
) -> dict[str, TargetSpec]:
    """The targets that the losses expect, by output. specs: of the net's inputs, for a batch of one sample;
    from_inputs: outputs whose target is an input, which need none. Raises ShapeError where no layer takes the specs."""
    outputs = plan_cache.output_specs(specs)
    terms = _with_target_shapes(plan_cache, dataset, outputs, from_inputs)
    return {
        t.output: _describe_output(plan_cache.net, t.output, make_target(t, outputs[t.output]))
        for t in terms
        if t.loss.needs_target and t.output not in from_inputs
    }


def _with_target_shapes(
    plan_cache: PlanCache, dataset: Dataset, outputs: Mapping[str, Spec], from_inputs: Mapping[str, str]
) -> tuple[LossTerm, ...]:
    """The losses; those that are functions take targets of the data's shape. It is fixed by the first data.

    Raises DataError where later data have another one.
    """
    terms = []
    terms_with_target = [term for term in plan_cache.loss_terms if term.loss.needs_target]
    learned = [t for t in dict.fromkeys(term.output for term in terms_with_target) if t not in from_inputs]
    for term in plan_cache.loss_terms:
        if isinstance(term.loss, FunctionLoss) and term.output in learned and len(learned) == len(dataset.targets):
            by_order = dict(zip(learned, dataset.targets, strict=True))
            column = term.target or (term.output if term.output in dataset.targets else by_order[term.output])
            shape, expected = dataset.columns[column].shape, outputs[term.output].shape[1:]
            if term.target_shape is None and (*shape, 1) != expected and shape not in (expected, (*expected, 1)):
                term = replace(term, target_shape=shape)
        terms.append(term)
    plan_cache.step_graphs.loss_terms = tuple(terms)
    return tuple(terms)


def _widen(
    plan_cache: PlanCache, specs: Mapping[str, Spec], targets: Mapping[str, TargetSpec]
) -> Mapping[str, TargetSpec]:
    """The targets with None for the sizes that follow those that the net's inputs leave open. specs: of the net's
    inputs, of one size of them."""
    open_axes = {i.name: [1 + axis for axis, n in enumerate(i.shape) if n is None] for i in plan_cache.net.inputs}
    if not any(open_axes.values()) or not targets:
        return targets
    larger = {
        name: replace(spec, shape=tuple(n + 16 * (axis in open_axes[name]) for axis, n in enumerate(spec.shape)))
        for name, spec in specs.items()
    }
    try:
        outputs = plan_cache.output_specs(larger)
    except ModelError:  # the net takes this size alone
        return targets
    terms = {term.output: term for term in plan_cache.loss_terms if term.loss.needs_target}
    wide = {}
    for name, target in targets.items():
        other = make_target(terms[name], outputs[name]).shape
        sizes = (a if a == b else None for a, b in zip(target.shape, other, strict=True))
        wide[name] = replace(target, shape=tuple(sizes))
    return wide


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


def text_inputs(net: Net) -> tuple[TextInput, ...]:
    """The inputs that are texts, in order; empty for a net that reads none.

    Raises UsageError where a tokenizer's ``output_sequence_length`` is not that of its input.
    """
    nodes = {node.name: node for node in net.inputs}
    tokenizers = net.tokenizers()
    for node in net.nodes:
        tokenizer = tokenizers.get(node.bottoms[0]) if getattr(node.layer, "mask_zero", False) else None
        if tokenizer is not None and tokenizer.padding_id():
            raise UsageError(
                f"{node.name!r} masks the id 0, and the tokenizer file pads with {tokenizer.padding_id()}: leave "
                "mask_zero out, or name the token with the id 0 as pad_token"
            )
    return tuple(TextInput(n, t, _sequence_length(nodes[n], t)) for n, t in tokenizers.items())


def _sequence_length(node: InputNode, tokenizer: Tokenizer) -> int | None:
    """The number of ids of a sample; None: that of the longest text."""
    if len(node.shape) != 1:
        raise UsageError(
            f"the input {node.name!r} is read by {type(tokenizer).__name__}, whose ids have the shape "
            f"[time]: input {{ shape: [64]  dtype: int32 }}, not {list(node.shape)}"
        )
    declared, length = node.shape[0], tokenizer.output_sequence_length
    if None not in (declared, length) and declared != length and tokenizer is not None:
        raise UsageError(
            f"the input {node.name!r} has {declared} steps, and output_sequence_length of its "
            f"{type(tokenizer).__name__} is {length}; leave one of them out"
        )
    return declared or length


def _predicted_kind(plan_cache: PlanCache) -> TextKind | None:
    """The kind of a text file by the model: ``pairs`` where it reads two texts, ``windows`` where it reads one and its
    output [time, tokens] predicts a token at each step; None for any other model."""
    inputs = text_inputs(plan_cache.net)
    if len(inputs) == 2:
        return "pairs"
    if len(inputs) != 1 or len(plan_cache.net.inputs) != 1 or inputs[0].length is None:
        return None
    node = plan_cache.net.inputs[0]
    try:
        outputs = plan_cache.output_specs({node.name: Spec((1, inputs[0].length), node.dtype)})
    except ModelError:  # reported where the data are bound
        return None
    shapes = [outputs[name].shape[1:] for name in plan_cache.net.outputs]
    return "windows" if all(len(s) == 2 and s[0] == inputs[0].length for s in shapes) else None


def _cover_size(net: Net) -> tuple[int, int] | None:
    """Height and width that the first `Resizing` of ``preprocess`` keeps the aspect ratio for: images of a folder,
    which have one size in a batch, are cropped to that aspect ratio instead of being stretched."""
    layer = next((one for one in net.preprocess if isinstance(one, Resizing)), None)
    return (layer.height, layer.width) if layer is not None and layer.keep_aspect_ratio else None
