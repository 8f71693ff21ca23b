"""The bytes of an ONNX file before protobuf sees them: counted, and the large arrays taken out.

A protobuf message takes many times the memory of its bytes: a node of 2 bytes becomes an object of some hundreds. The
bytes are walked once here (https://protobuf.dev/programming-guides/encoding), so that what is parsed is bounded, and
the raw data of initializers stay in the file, where they are mapped into memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from prototorch.errors import ModelFileError
from prototorch.interop.protobuf_reader import encode_varint

__all__ = ["SkimmedModel", "skim"]

MAX_NODES = 250_000  # as many as a net may have
MAX_FIELDS = 2_000_000  # of all messages together
MAX_DEPTH = 40  # of messages in messages; a subgraph takes three
MAX_VARINT_BYTES = 64 << 20  # of packed integers, which become eight bytes each
MAPPED_BYTES = 1 << 12  # raw data of this size and more are left in the file

# onnx.proto: the fields that hold messages, by message
_MESSAGES: dict[str, dict[int, str]] = {
    "model": {7: "graph", 8: "opset", 14: "pair", 20: "training", 25: "function", 26: "other"},
    "graph": {1: "node", 5: "tensor", 11: "value", 12: "value", 13: "value", 14: "other", 15: "sparse", 16: "pair"},
    "node": {5: "attribute", 9: "pair"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 14: "type", 15: "type", 22: "sparse",
                  23: "sparse"},
    "tensor": {3: "other", 13: "pair", 16: "pair"},
    "sparse": {1: "tensor", 2: "tensor"},
    "function": {7: "node", 9: "opset", 11: "attribute", 12: "value", 14: "pair"},
    "value": {2: "type", 4: "pair"},
    "type": {1: "tensor_type", 4: "element_type", 5: "map_type", 8: "tensor_type", 9: "element_type"},
    "element_type": {1: "type"},
    "map_type": {2: "type"},
    "tensor_type": {2: "shape"},
    "shape": {1: "dim"},
    "training": {1: "graph", 2: "graph", 3: "pair", 4: "pair"},
    "opset": {}, "pair": {}, "dim": {}, "other": {},
}  # fmt: skip
_PACKED_INTEGERS = {"tensor": {1, 5, 7, 11}, "attribute": {8}, "sparse": {3}}
#: the fields that hold texts, which must be UTF-8
_TEXTS = {
    "model": {2, 3, 4, 6}, "graph": {2, 10}, "node": {1, 2, 3, 4, 6, 7, 8}, "attribute": {1, 13, 21}, "tensor": {8, 12},
    "value": {1, 3}, "pair": {1, 2}, "opset": {1}, "function": {1, 4, 5, 6, 8, 10, 13}, "type": {6}, "dim": {2, 3},
}  # fmt: skip
_RAW_DATA = 9


@dataclass(frozen=True)
class SkimmedModel:
    """A file without the large arrays of its main graph's initializers.

    content: the bytes that are left, a valid ModelProto. raw: offset and length of the raw data that were taken out, by
    the number of the initializer.
    """

    content: bytes
    raw: dict[int, tuple[int, int]]


def skim(data: memoryview, path: str) -> SkimmedModel:
    """Walk over a ModelProto.

    Raises ModelFileError where the bytes are no protobuf messages of ONNX' form, or are too many or too deep.
    """
    walker = _Walker(data, path)
    walker.message("model", 0, len(data), 0)
    return SkimmedModel(walker.without_raw_data(), walker.raw)


class _Walker:
    def __init__(self, data: memoryview, path: str):
        self.data, self.path = data, path
        self.fields = self.nodes = self.varint_bytes = 0
        self.initializers = 0
        self.raw: dict[int, tuple[int, int]] = {}
        # (start of the length, offset of the content, its length) of the graph and of the tensors with mapped data
        self.graph: tuple[int, int, int] | None = None
        self.cuts: list[tuple[tuple[int, int, int], tuple[int, int]]] = []

    def refuse(self, text: str) -> ModelFileError:
        return ModelFileError(f"{self.path}: {text}")

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """The integer at an offset, and the offset after it."""
        data, value, shift = self.data, 0, 0
        while at < end and shift < 70:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
        raise self.refuse(f"damaged: an integer at byte {at:,} has no end; is this an ONNX file?")

    def message(self, kind: str, start: int, end: int, depth: int, number: int | None = None) -> None:
        """Walk over a message. number: of an initializer of the main graph."""
        if depth > MAX_DEPTH:
            raise self.refuse(f"messages lie more than {MAX_DEPTH} levels deep in each other (subgraphs in subgraphs)")
        inside, packed_fields, texts = _MESSAGES[kind], _PACKED_INTEGERS.get(kind, ()), _TEXTS.get(kind, ())
        at, data = start, self.data
        while at < end:
            self.fields += 1
            if self.fields > MAX_FIELDS:
                raise self.refuse(f"more than {MAX_FIELDS:,} fields; a net has far fewer")
            tag = data[at]
            if tag < 0x80:  # nearly all tags and lengths are one byte
                at += 1
            else:
                tag, at = self.varint(at, end)
            field, wire = tag >> 3, tag & 7
            if wire == 0:
                _, at = self.varint(at, end)
            elif wire in (1, 5):
                at += 8 if wire == 1 else 4
            elif wire == 2:
                tag_end = at
                if at < end and data[at] < 0x80:
                    size, at = data[at], at + 1
                else:
                    size, at = self.varint(at, end)
                if at + size > end:
                    raise self.refuse(
                        f"truncated or damaged: a field of {size:,} bytes at byte {at:,} reaches beyond "
                        f"its message, which ends at {end:,}"
                    )
                if field in inside:
                    self.submessage(kind, inside[field], field, (tag_end, at, size), depth)
                elif field in texts:
                    self.check_text(at, size)
                elif field in packed_fields:
                    self.count_varints(size)
                elif kind == "tensor" and field == _RAW_DATA and number is not None and size >= MAPPED_BYTES:
                    self.raw[number] = (at, size)
                at += size
            else:
                raise self.refuse(
                    f"damaged: a field of the unknown wire type {wire} at byte {at:,}; is this an ONNX file?"
                )
        if at != end:
            raise self.refuse(f"truncated: it ends within a field at byte {end:,}")

    def check_text(self, at: int, size: int) -> None:
        if not size:
            return
        try:
            str(self.data[at : at + size], "utf-8")
        except UnicodeDecodeError:
            raise self.refuse(f"damaged: a text at byte {at:,} is no UTF-8; is this an ONNX file?") from None

    def count_varints(self, size: int) -> None:
        self.varint_bytes += size
        if self.varint_bytes > MAX_VARINT_BYTES:
            raise self.refuse(
                f"more than {MAX_VARINT_BYTES >> 20} MB of integers that are not raw data; save the model with raw_data"
            )

    def submessage(self, kind: str, inner: str, field: int, extent: tuple[int, int, int], depth: int) -> None:
        _, at, size = extent
        number = None
        if inner == "node":
            self.nodes += 1
            if self.nodes > MAX_NODES:
                raise self.refuse(f"more than {MAX_NODES:,} nodes")
        elif kind == "model" and inner == "graph":
            if self.graph is not None:
                raise self.refuse("it holds two graphs")
            self.graph = extent
        elif kind == "graph" and inner == "tensor" and depth == 1:
            number = self.initializers
            self.initializers += 1
        self.message(inner, at, at + size, depth + 1, number)
        if number is not None and number in self.raw:
            self.cuts.append((extent, self.raw[number]))

    def without_raw_data(self) -> bytes:
        """The bytes without the large arrays: the lengths of their tensors and of the graph are written anew."""
        if self.graph is None or not self.cuts:
            return bytes(self.data)
        length_at, graph_at, graph_size = self.graph
        pieces, position = [], graph_at
        for (tensor_length_at, tensor_at, tensor_size), (raw_at, raw_size) in self.cuts:
            raw_field = self._field_start(tensor_at, raw_at)
            inside = bytes(self.data[tensor_at:raw_field]) + bytes(
                self.data[raw_at + raw_size : tensor_at + tensor_size]
            )
            pieces += [bytes(self.data[position:tensor_length_at]), encode_varint(len(inside)), inside]
            position = tensor_at + tensor_size
        pieces.append(bytes(self.data[position : graph_at + graph_size]))
        graph = b"".join(pieces)
        after = bytes(self.data[graph_at + graph_size :])
        return bytes(self.data[:length_at]) + encode_varint(len(graph)) + graph + after

    def _field_start(self, start: int, content: int) -> int:
        """The offset of the tag of the field whose content begins at an offset, in the message that begins at start."""
        at = start
        while True:
            tag_at = at
            tag, at = self.varint(at, content)
            if tag & 7 == 0:
                _, at = self.varint(at, content)
            elif tag & 7 == 2:
                size, at = self.varint(at, content)
                if at == content and tag >> 3 == _RAW_DATA:
                    return tag_at
                at += size
            else:
                at += 8 if tag & 7 == 1 else 4
