"""Fields as a person writes them: initializers that the file states, numbers as they stood there."""

from __future__ import annotations

from typing import Any, TypeVar

from prototorch.caffe.interop.model_conversion.draft import NetDraft
from prototorch.caffe.text.field_values import round_to_float32
from prototorch.caffe.text.message import Message
from prototorch.schema import Block

__all__ = ["shorten_block", "shorten_numbers", "use_default_initializers"]

B = TypeVar("B", bound=Block)
_FILLERS = {
    "kernel_initializer": "weight_filler",
    "embeddings_initializer": "weight_filler",
    "depthwise_initializer": "weight_filler",
    "bias_initializer": "bias_filler",
}
_DIGITS = 9  # that tell any two numbers of single precision apart


def use_default_initializers(draft: NetDraft) -> None:
    """Leave out initializers for which the file has no filler: Caffe's own default is zeros, with which no weights can
    be trained."""
    for node in draft.nodes:
        message = draft.messages.get(node.name)
        specs = type(node.layer).specs()
        names = [name for name, filler in _FILLERS.items() if name in specs and not _states(message, filler)]
        defaults = {name: getattr(_default_layer(node.layer), name) for name in names}
        draft.set_layer(node, node.layer.replace(**defaults))


def _default_layer(layer: Any) -> Any:
    """The layer with nothing but what must be given."""
    specs = type(layer).specs()
    return type(layer)(**{n: v for n, v in layer.field_values().items() if specs[n].required})


def _states(message: Message | None, filler: str) -> bool:
    """Whether a message of a layer states a filler."""
    if message is None:
        return False
    inner = (value for field, value in message.set_fields() if field.is_message and not field.is_repeated)
    return any(filler in value.type.fields and value.has(filler) for value in inner)


def shorten_block(block: B) -> B:
    """A block with its numbers as `shorten_numbers` writes them."""
    changes = _shorter_fields(block)
    return block.replace(**changes) if changes else block


def shorten_numbers(draft: NetDraft) -> None:
    """Write numbers of single precision with as few digits as tell them apart: 0.0001, not 9.999999747378752e-05."""
    for node in draft.nodes:
        changes = _shorter_fields(node.layer)
        if changes:
            draft.set_layer(node, node.layer.replace(**changes))


def _shorter_fields(block: Block) -> dict[str, Any]:
    changes = {}
    for name, value in block.field_values().items():
        shorter = _shorten(value)
        if shorter is not value and shorter != value:
            changes[name] = shorter
    return changes


def _shorten(value: Any) -> Any:
    if isinstance(value, float):
        texts = (f"{value:.{digits}g}" for digits in range(1, _DIGITS + 1))
        return next((float(t) for t in texts if round_to_float32(float(t)) == value), value)
    if isinstance(value, list | tuple):
        return type(value)(map(_shorten, value))
    if isinstance(value, Block):
        return shorten_block(value)
    return value
