"""WordPiece and WordLevel: the longest known begin of a word first (Wu et al., 2016), and whole words."""

from __future__ import annotations

from prototorch.errors import DataError
from prototorch.tokenization.fields import Part, affix, value
from prototorch.tokenization.vocabulary import read_vocabulary

__all__ = ["WordPieces", "Words"]

MAX_WORD = 1000  # characters of a word, which bound the work


class Words:
    """The model WordLevel of a file: a piece is a token. Raises DataError for what is damaged."""

    def __init__(self, part: Part):
        self.vocabulary = read_vocabulary(value(part, "vocab", dict))
        self.unknown = self.vocabulary.get(value(part, "unk_token", str, "[UNK]"))

    def encode(self, piece: str) -> list[int]:
        """The ids of a piece of text. Raises DataError for an unknown one, where the file has no token for it."""
        return [self.id_or_unknown(piece)]

    def id_or_unknown(self, token: str) -> int:
        """The id of a token, or of the unknown one. Raises DataError where the file has none."""
        token_id = self.vocabulary.get(token, self.unknown)
        if token_id is None:
            raise DataError("tokenizer file: a text has an unknown token, and the vocabulary has no unk_token")
        return token_id


class WordPieces(Words):
    """The model WordPiece of a file. Raises DataError for what is damaged."""

    def __init__(self, part: Part):
        super().__init__(part)
        self._prefix = affix(part, "continuing_subword_prefix", "##")
        self._limit = value(part, "max_input_chars_per_word", int, 100)
        if not 0 <= self._limit <= MAX_WORD:
            raise DataError(f"tokenizer file: max_input_chars_per_word must be 0 to {MAX_WORD:,}, got {self._limit:,}")
        self._longest = max(map(len, self.vocabulary))

    def encode(self, piece: str) -> list[int]:
        if len(piece) > self._limit:
            return [self.id_or_unknown("")]
        ids, start = list[int](), 0
        while start < len(piece):
            prefix = self._prefix if start else ""
            for end in range(min(len(piece), start + self._longest), start, -1):
                token_id = self.vocabulary.get(prefix + piece[start:end])
                if token_id is not None:
                    break
            else:
                return [self.id_or_unknown("")]
            ids.append(token_id)
            start = end
        return ids
