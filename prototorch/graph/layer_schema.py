"""The classes of layers as the calls of a text see them."""

from __future__ import annotations

from prototorch.layers.base import Layer
from prototorch.schema.call_schema import member_schema
from prototorch.text.call_schema import CallSchema, SchemaSource

LAYER_SCHEMA = SchemaSource(name="layer", find=lambda name: member_schema(Layer, name))


class _LayerList(CallSchema):
    """``preprocess`` and ``augment``: bodies of layers."""

    positional = ()
    reads_inputs = is_merging = False

    def __init__(self, name: str):
        self.name = name

    def has_field(self, field: str) -> bool:
        return False

    def takes_word(self, field: str, word: str) -> bool:
        return False

    def is_enumerated(self, field: str) -> bool:
        return True

    def takes_strings(self, field: str) -> bool:
        return False

    def value_class(self, field: str, word: str) -> CallSchema | None:
        return None

    def block_class(self, name: str) -> CallSchema | None:
        return member_schema(Layer, name)


PREPROCESS_SCHEMA = SchemaSource(name="preprocess", find=_LayerList)
AUGMENT_SCHEMA = SchemaSource(name="augment", find=_LayerList)
