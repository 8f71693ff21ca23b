"""The base of tokenizers: layers that turn texts into token ids, on the host."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from prototorch.data.read_limits import is_inside
from prototorch.data.safe_io import expand_path, printable_path
from prototorch.data.token_dataset import TokenSequences
from prototorch.errors import DataError, UsageError
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import field

MAX_SEQUENCE_LENGTH = 1 << 20  # tokens of a sample
PADDING_ID = 0


class Tokenizer(Layer, abstract=True):
    """Texts as token ids. It reads an input of the net, alone or as the first layer of ``preprocess``.

    Data that are texts become ids, int32 [batch, time], before a step: padded at the end with 0, and cut to the length.
    Numbers are ids already, and pass as they are. Inputs without a tokenizer of their own use the first one.
    """

    channel_axis_note = "it makes the axis of the tokens"
    mask_policy = "keep"
    independent_steps = True
    keeps_bounds = True
    keyword_only = ("start_token", "end_token", "name", "trainable", "weights", "lr_mult", "decay_mult", "share")
    #: the field that may name a file, which `resolve` reads
    file_field: ClassVar[str] = "vocabulary"
    own_fields: ClassVar[frozenset[str]] = frozenset({"start_token", "end_token"})

    output_sequence_length: int | None = field(
        default=None,
        min=1,
        max=MAX_SEQUENCE_LENGTH,
        doc="The number of ids of a sample; default: that of the input, else of the longest text.",
    )
    start_token: str | None = field(default=None, doc="The token before the first one of a text that is generated.")
    end_token: str | None = field(default=None, doc="The token after the last one of a text that is generated.")

    @property
    def separates_words(self) -> bool:
        """Whether texts are made of tokens with spaces between them."""
        return False

    def is_adapted(self) -> bool:
        """Whether it has a vocabulary, and can encode."""
        raise TypeError(f"{type(self).__name__} does not define is_adapted")

    def adapt(self, data: Any) -> None:
        """Learn the vocabulary from texts, in place (Keras). Raises UsageError where it has a fixed one."""
        raise UsageError(f"{type(self).__name__}: its vocabulary is that of its file, and is not learned")

    def vocabulary_size(self) -> int:
        """The number of ids: each is at least 0 and less. Raises UsageError before it has a vocabulary."""
        return len(self.get_vocabulary())

    def get_vocabulary(self) -> list[str]:
        """The tokens by id. Raises UsageError before it has a vocabulary."""
        raise TypeError(f"{type(self).__name__} does not define get_vocabulary")

    def encode(self, text: str) -> list[int]:
        """The ids of a text, neither cut nor padded. Raises UsageError before it has a vocabulary."""
        raise TypeError(f"{type(self).__name__} does not define encode")

    def encode_part(self, text: str) -> list[int]:
        """As `encode`, of a part of a text: without the special tokens that stand around a whole one."""
        return self.encode(text)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, without padding, start and end."""
        raise TypeError(f"{type(self).__name__} does not define decode")

    def token_id(self, token: str) -> int | None:
        """The id of a token, None for one that is not in the vocabulary."""
        raise TypeError(f"{type(self).__name__} does not define token_id")

    def padding_id(self) -> int:
        """The id that fills up a text."""
        return PADDING_ID

    def special_ids(self) -> frozenset[int]:
        """Ids that stand for no text: padding, unknown tokens, start and end."""
        names = (self.start_token, self.end_token)
        return frozenset({PADDING_ID, *(i for n in names if n is not None and (i := self.token_id(n)) is not None)})

    def edge_ids(self) -> tuple[int, int]:
        """The ids of the start and of the end. Raises UsageError where it has none."""
        ids = [None if name is None else self.token_id(name) for name in (self.start_token, self.end_token)]
        if None in ids:
            raise UsageError(
                f"{type(self).__name__}: a text that is generated needs a start and an end in the vocabulary: "
                'start_token: "[START]"  end_token: "[END]"'
            )
        start, end = (i for i in ids if i is not None)
        return start, end

    def resolve(self, folder: str | None) -> None:
        """Read the file that a field names in place of its name.

        folder: of the text that names it, below which it lies, after links are resolved. None: the text of a saved
        model, which names none. Raises UsageError for a file elsewhere, DataError for one that cannot be read.
        """

    def encode_batch(self, texts: Iterable[str], length: int | None = None) -> np.ndarray:
        """The ids of several texts, int32 [n, time]; time is ``length``, else ``output_sequence_length``, else that of
        the longest text (at least 1)."""
        sequences = TokenSequences(
            [self.encode(text) for text in texts], length or self.output_sequence_length, self.padding_id()
        )
        return sequences.read(np.arange(len(sequences)))

    def index_count(self) -> int | None:
        return self.vocabulary_size() if self.is_adapted() else None

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        return x

    def __call__(self, *inputs: Any) -> Any:
        """As `Layer.__call__`; the ids, int32 [n, time], of texts: a list or an array [n], or [time] of one text."""
        if len(inputs) == 1 and (texts := as_texts(inputs[0])) is not None:
            ids = self.encode_batch(texts)
            return ids[0] if isinstance(inputs[0], str) else ids
        return super().__call__(*inputs)

    def __hash__(self) -> int:
        return hash(type(self))  # `adapt` changes the fields

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)

    def set_field(self, name: str, value: Any) -> Self:
        """Set one of the fields that `adapt` and `resolve` change in place."""
        self.__dict__[name] = value
        return self


def find_beside(name: str, folder: str | None) -> Path:
    """The path of a file that a text in this folder names. Raises UsageError for one that is not below it; None: a
    saved model, which holds what it needs."""
    if folder is None:
        raise UsageError("a saved model holds its tokenizer, and its text names a file: save it again")
    path = Path(folder, expand_path(name))
    if not is_inside(os.path.realpath(path), os.path.realpath(folder)):
        raise UsageError(
            f"{printable_path(path)} is outside of {printable_path(os.path.realpath(folder))}: what a text names here "
            "becomes a part of the saved model, and lies in the folder of the text or below it"
        )
    return path


def as_texts(value: Any) -> list[str] | None:
    """Texts as a list: a string, a list or tuple of strings, or an array of strings [n] or [n, 1]; else None.

    Raises DataError for a list of strings and other values, or an array of strings of another shape.
    """
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple):
        count = sum(isinstance(text, str) for text in value)
        if count and count < len(value):
            other = next(v for v in value if not isinstance(v, str))
            raise DataError(f"expected texts, got {type(other).__name__} among {count} of them")
        return list(value) if count else None
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind not in ("U", "T", "O"):
        return None
    array = np.asarray(value)
    if kind == "O" and not all(isinstance(text, str) for text in array.flat):
        return None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"texts must be an array [samples] of strings, got the shape {list(array.shape)}")
    return [str(text) for text in array]
