"""The unigram model (Kudo, 2018): of all ways to split a piece the most probable."""

from __future__ import annotations

from typing import Any

from prototorch.errors import DataError
from prototorch.tokenization.byte_pairs import byte_tokens
from prototorch.tokenization.fields import Part, value
from prototorch.tokenization.vocabulary import read_vocabulary

__all__ = ["Unigram"]

UNKNOWN_PENALTY = 10.0  # of an unknown character below the least probable token (SentencePiece)
MAX_TOKEN = 1000  # characters of a token, which bound the work


class Unigram:
    """The model Unigram of a file. Raises DataError for what is damaged."""

    def __init__(self, part: Part):
        entries = value(part, "vocab", list)
        scores = [_entry(entry) for entry in entries]
        self.vocabulary = read_vocabulary({token: i for i, (token, _) in enumerate(scores)})
        if len(self.vocabulary) != len(scores):
            raise DataError("tokenizer file: a token of the vocabulary is there twice")
        self._scores = {token: score for token, score in scores if token}
        self._falls_back = value(part, "byte_fallback", bool, False)
        self._unknown = value(part, "unk_id", int, -1)
        if not -1 <= self._unknown < len(scores):
            raise DataError(f"tokenizer file: unk_id {self._unknown} is not in the vocabulary")
        self._unknown_score = min(score for _, score in scores) - UNKNOWN_PENALTY
        self._longest = max(map(len, self.vocabulary))

    def encode(self, piece: str) -> list[int]:
        """The ids of a piece of text. Raises DataError for an unknown character, where the file has no token for it."""
        best: list[tuple[float, int, bool] | None] = [(0.0, 0, False), *[None] * len(piece)]
        for start in range(len(piece)):
            reached = best[start]
            assert reached is not None
            for end in range(start + 1, min(len(piece), start + self._longest) + 1):
                score = self._scores.get(piece[start:end])
                if score is not None:
                    self._offer(best, end, (reached[0] + score, start, False))
            if piece[start] not in self._scores:
                self._offer(best, start + 1, (reached[0] + self._unknown_score, start, True))
        parts, end = list[tuple[str, bool]](), len(piece)
        while end > 0:
            _, start, is_unknown = best[end] or (0.0, end - 1, True)
            if is_unknown and parts and parts[-1][1]:
                parts[-1] = (piece[start:end] + parts[-1][0], True)
            else:
                parts.append((piece[start:end], is_unknown))
            end = start
        return [i for text, is_unknown in reversed(parts) for i in self._ids(text, is_unknown)]

    def _offer(self, best: list[Any], end: int, way: tuple[float, int, bool]) -> None:
        if best[end] is None or way[0] > best[end][0]:
            best[end] = way

    def _ids(self, text: str, is_unknown: bool) -> list[int]:
        if not is_unknown:
            return [self.vocabulary[text]]
        ids = byte_tokens(self.vocabulary, text) if self._falls_back else None
        if ids is None and self._unknown < 0:
            raise DataError("tokenizer file: a text has an unknown character, and the vocabulary has no unk_id")
        return [self._unknown] if ids is None else ids


def _entry(entry: Any) -> tuple[str, float]:
    is_pair = isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str)
    if not is_pair or isinstance(entry[1], bool) or not isinstance(entry[1], int | float):
        raise DataError("tokenizer file: the vocabulary of Unigram must be pairs of a token and its score")
    score = float(entry[1])
    if len(entry[0]) > MAX_TOKEN or score != score or abs(score) == float("inf"):
        raise DataError(f"tokenizer file: a token is longer than {MAX_TOKEN:,} characters, or its score is no number")
    return entry[0], score
