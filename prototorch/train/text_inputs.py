"""The inputs of a model that are texts: the tokenizer of each, and texts in memory as ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prototorch.data.text_source import TextInput, TextKind
from prototorch.errors import ModelError, UsageError
from prototorch.graph.net import InputNode, Net
from prototorch.layers.tokenizer import Tokenizer, as_texts
from prototorch.spec import Spec
from prototorch.train.plan_cache import PlanCache

__all__ = ["encode_texts", "predicted_kind", "text_inputs"]


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
        raise UsageError(f"the input {node.name!r} is read by {type(tokenizer).__name__}, whose ids have the shape "
                         f"[time]: input {{ shape: [64]  dtype: int32 }}, not {list(node.shape)}")  # fmt: skip
    declared, length = node.shape[0], tokenizer.output_sequence_length
    if None not in (declared, length) and declared != length and tokenizer is not None:
        raise UsageError(f"the input {node.name!r} has {declared} steps, and output_sequence_length of its "
                         f"{type(tokenizer).__name__} is {length}; leave one of them out")  # fmt: skip
    return declared or length


def predicted_kind(plan_cache: PlanCache) -> TextKind | None:
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
    shapes = [spec.shape[1:] for spec in outputs.values()]
    return "windows" if all(len(s) == 2 and s[0] == inputs[0].length for s in shapes) else None


def encode_texts(net: Net, x: Any, learn: bool = False) -> Any:
    """x of `Model.fit` with ids in the place of texts; other values as they are.

    learn: whether a tokenizer without a vocabulary learns that of these texts. Raises UsageError for texts at a model
    that reads none, and for a tokenizer without a vocabulary.
    """
    if not net.tokenizers():
        return x
    names = [node.name for node in net.inputs]
    if isinstance(x, Mapping):
        given = dict(x)
    elif isinstance(x, list | tuple) and len(names) > 1 and len(x) == len(names):
        given = dict(zip(names, x, strict=True))
    else:
        given = dict(zip(names, [x], strict=False))
    texts = {name: found for name, value in given.items() if (found := as_texts(value)) is not None}
    if not texts:
        return x
    inputs = text_inputs(net)
    for one in inputs:
        if one.name in texts and learn and not one.tokenizer.is_adapted():
            same = [text for other in inputs if other.tokenizer is one.tokenizer for text in texts.get(other.name, ())]
            one.tokenizer.adapt(same)
    by_name = {one.name: one for one in inputs}
    for name, found in texts.items():
        if name not in by_name:
            return x  # `as_dataset` refuses it
        given[name] = by_name[name].encode(found)
    return given if len(names) > 1 or isinstance(x, Mapping) else given[names[0]]
