"""Texts as ids of words or characters."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from prototorch.data.safe_io import expand_path, printable_path, read_lines
from prototorch.data.words import split_words
from prototorch.errors import DataError, UsageError
from prototorch.layers.tokenizer import Tokenizer, as_texts, find_beside
from prototorch.schema import example, field
from prototorch.schema.block_source import find_span
from prototorch.schema.neutral_arguments import neutral

MAX_TOKENS = 1 << 20
MAX_TOKEN_LENGTH = 1000  # characters of a token
MAX_FILE_BYTES = 1 << 28  # of a vocabulary file
UNKNOWN_ID = 1
UNKNOWN = "[UNK]"


class TextVectorization(Tokenizer):
    """Texts as ids of words or characters (Keras). Data that are texts become int32 [batch, time].

    Id 0 is padding, 1 an unknown token; then come the start and the end, where they are given, and the tokens, the most
    frequent first (of two equally frequent the later in the alphabet, as in Keras). ``adapt(texts)`` learns them, and
    so does the first `fit`; a saved model and its text hold them. As a string ``vocabulary`` is the path of a file with
    a token on each line.
    """

    positional = ("max_tokens", "standardize", "split", "ngrams", "output_mode", "output_sequence_length")
    neutral_arguments = {
        "ngrams": neutral(None, hint="tokens are single words or characters"),
        "output_mode": neutral("int", hint="the output is ids; an Embedding behind them makes vectors"),
        "pad_to_max_tokens": neutral(False, True, hint="it belongs to another output_mode"),
        "idf_weights": neutral(None, hint="it belongs to another output_mode"),
        "ragged": neutral(False, hint="ids are padded to one length with 0; Embedding { mask_zero: true } masks them"),
        "sparse": neutral(False, hint="it belongs to another output_mode"),
        "encoding": neutral("utf-8", hint="texts are Unicode, files are UTF-8"),
    }

    max_tokens: int | None = field(
        default=None, min=3, max=MAX_TOKENS, doc="The largest number of ids, those of padding and unknown included."
    )
    standardize: Literal["lower_and_strip_punctuation", "lower", "strip_punctuation"] | None = field(
        default="lower_and_strip_punctuation", doc="What is changed before a text is split; none: nothing."
    )
    split: Literal["whitespace", "character"] | None = field(
        default="whitespace", doc="Where a text is split; none: the whole text is one token."
    )
    vocabulary: str | list[str] | None = field(
        default=None, doc="The tokens after the special ones, or the path of a file."
    )

    examples = [
        example(
            "TextVectorization { max_tokens: 1000  output_sequence_length: 5 }",
            inputs=[(5,)],
            dtype="int32",
            range=(0, 2),
        ),
        example(
            'TextVectorization { split: character  standardize: none  vocabulary: ["e", "t", "a"] }',
            inputs=[(4,)],
            dtype="int32",
            range=(0, 5),
        ),
    ]

    def check(self) -> None:
        """A vocabulary has no token twice; a file that Python names is read at once."""
        if isinstance(self.vocabulary, str):
            if find_span(self) is None:
                self._read(expand_path(self.vocabulary))
            return
        if self.vocabulary:
            self.set_field("vocabulary", self._checked(self.vocabulary))

    @property
    def separates_words(self) -> bool:
        return self.split != "character"

    def is_adapted(self) -> bool:
        return bool(self.vocabulary) and not isinstance(self.vocabulary, str)

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Learn the vocabulary from texts, a list or an array of them or batches, in place (Keras).

        steps: the number of batches that are read; batch_size changes nothing. Raises DataError where there is no
        token.
        """
        counts: Counter[str] = Counter()
        texts = as_texts(data)
        batches = [texts] if texts is not None else data
        if not isinstance(batches, Iterable):
            raise UsageError(f"TextVectorization.adapt: expected texts, got {type(data).__name__}")
        for number, batch in enumerate(batches):
            if steps is not None and number >= steps:
                break
            texts = as_texts(batch)
            if texts is None:
                raise UsageError(f"TextVectorization.adapt: expected texts, got {type(batch).__name__}")
            for text in texts:
                counts.update(self._tokens(text))
        for special in ("", UNKNOWN, *self._edges()):
            counts.pop(special, None)
        if not counts:
            raise DataError("TextVectorization.adapt: the texts have no tokens")
        tokens = sorted(counts, key=lambda token: (counts[token], token), reverse=True)
        room = None if self.max_tokens is None else self.max_tokens - self._first_id()
        tokens = [token for token in tokens if len(token) <= MAX_TOKEN_LENGTH][: MAX_TOKENS if room is None else room]
        self.set_field("vocabulary", self._checked(tokens))

    def set_vocabulary(self, vocabulary: str | Iterable[str]) -> None:
        """Set the tokens, or read those of a file (Keras). Raises UsageError for a token that is there twice."""
        if isinstance(vocabulary, str | os.PathLike):
            self._read(expand_path(vocabulary))
        else:
            self.set_field("vocabulary", self._checked([str(token) for token in vocabulary]))

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[str]:
        """The tokens by id (Keras): "" of the padding, "[UNK]", start and end, and the others."""
        tokens = self._vocabulary()
        return ["", UNKNOWN, *self._edges(), *tokens] if include_special_tokens else list(tokens)

    def vocabulary_size(self) -> int:
        return self._first_id() + len(self._vocabulary())

    def encode(self, text: str) -> list[int]:
        ids = self._ids()
        return [ids.get(token, UNKNOWN_ID) for token in self._tokens(text)]

    def decode(self, ids: Iterable[int]) -> str:
        tokens, left_out = self.get_vocabulary(), self.special_ids() - {UNKNOWN_ID}
        words = [tokens[i] if 0 <= i < len(tokens) else UNKNOWN for i in map(int, ids) if i not in left_out]
        return (" " if self.separates_words else "").join(words)

    def token_id(self, token: str) -> int | None:
        return self._ids().get(token)

    def special_ids(self) -> frozenset[int]:
        return super().special_ids() | {UNKNOWN_ID}

    def resolve(self, folder: str | None) -> None:
        if isinstance(self.vocabulary, str):
            self._read(find_beside(self.vocabulary, folder))

    def _read(self, path: Path) -> None:
        """Read the vocabulary from a file. Raises DataError, which quotes nothing of it."""
        try:
            text = read_lines(path, 4 * MAX_TOKEN_LENGTH, MAX_FILE_BYTES).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DataError(f"{printable_path(path)}: is not UTF-8 text (byte {error.start})") from None
        lines = text.split("\n")
        tokens = [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
        try:
            self.set_field("vocabulary", self._checked(tokens, quotes=False))
        except UsageError as error:
            raise DataError(f"{printable_path(path)}: {error}") from None

    def _tokens(self, text: str) -> list[str]:
        return split_words(text, self.standardize, self.split)

    def _edges(self) -> list[str]:
        return [token for token in (self.start_token, self.end_token) if token is not None]

    def _first_id(self) -> int:
        """The id of the first token that is not a special one."""
        return 2 + len(self._edges())

    def _vocabulary(self) -> tuple[str, ...]:
        if not self.is_adapted():
            raise UsageError(
                f"{self.name or 'TextVectorization'}: it has no vocabulary yet: adapt(texts) learns one, and so does "
                "fit; or give vocabulary: a list of tokens, or the path of a file"
            )
        return tuple(self.vocabulary or ())

    def _ids(self) -> dict[str, int]:
        """Token -> id, made once for a vocabulary."""
        tokens = self._vocabulary()
        cached = self.__dict__.get("_id_cache")
        if cached is None or cached[0] is not self.vocabulary:
            edges = [UNKNOWN, *self._edges()]
            ids = {token: self._first_id() + at for at, token in enumerate(tokens)}
            ids.update({token: UNKNOWN_ID + at for at, token in enumerate(edges)})
            cached = self.__dict__["_id_cache"] = (self.vocabulary, ids)
        return cached[1]

    def _checked(self, tokens: Iterable[str], quotes: bool = True) -> tuple[str, ...]:
        """The tokens without the special ones that they begin with. Raises UsageError for what is no vocabulary."""
        words = list(tokens)
        specials = ["", UNKNOWN, *self._edges()]
        for skipped in (len(specials), 2):
            if words[:skipped] == specials[:skipped]:
                words = words[skipped:]
                break
        seen: set[str] = set()
        for at, token in enumerate(words):
            if token in seen or token in specials:
                what = f"the token {token[:40]!r}" if quotes else f"token {at + 1}"
                self.refuse(f"{what} is twice in the vocabulary, or a special one", "vocabulary")
            if len(token) > MAX_TOKEN_LENGTH:
                self.refuse(f"token {at} has {len(token):,} characters, more than {MAX_TOKEN_LENGTH:,}", "vocabulary")
            seen.add(token)
        limit = self.max_tokens or MAX_TOKENS
        if self._first_id() + len(words) > limit:
            self.refuse(
                f"the vocabulary has {self._first_id() + len(words):,} ids with the special ones, more than "
                f"max_tokens {limit:,}",
                "vocabulary",
            )
        if not words:
            self.refuse("the vocabulary is empty", "vocabulary")
        return tuple(words)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_id_cache"}
