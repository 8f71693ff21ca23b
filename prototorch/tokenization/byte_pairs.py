"""Byte pair encoding (Sennrich et al., 2016): pairs of symbols are merged in the order in which they were learned."""

from __future__ import annotations

import heapq
from typing import Any

from prototorch.errors import DataError
from prototorch.tokenization.fields import Part, affix, value
from prototorch.tokenization.vocabulary import read_vocabulary

__all__ = ["BytePairs", "byte_tokens"]

MAX_CACHED = 1 << 14  # pieces whose ids are kept


def byte_tokens(vocabulary: dict[str, int], text: str) -> list[int] | None:
    """The ids of the tokens ``<0x00>`` of a text's bytes, None where one of them is missing."""
    ids = [vocabulary.get(f"<0x{b:02X}>") for b in text.encode("utf-8", "surrogatepass")]
    return None if None in ids else [i for i in ids if i is not None]


class BytePairs:
    """The model BPE of a file. Raises DataError for what is damaged, or not supported."""

    def __init__(self, part: Part):
        self.vocabulary = read_vocabulary(value(part, "vocab", dict))
        self._prefix = affix(part, "continuing_subword_prefix", "")
        self._suffix = affix(part, "end_of_word_suffix", "")
        self._fuses, self._falls_back = value(part, "fuse_unk", bool, False), value(part, "byte_fallback", bool, False)
        self._ignores_merges = value(part, "ignore_merges", bool, False)
        unknown = value(part, "unk_token", str, "")
        self._unknown = self.vocabulary.get(unknown) if unknown else None
        if part.get("dropout"):
            raise DataError("tokenizer file: BPE with dropout is not supported: its ids would be random")
        self._merges = self._read_merges(value(part, "merges", list))
        self._cache: dict[str, list[int]] = {}

    def _read_merges(self, merges: list[Any]) -> dict[tuple[int, int], tuple[int, int]]:
        """Pair of ids -> its rank, and the id of the merged token."""
        table: dict[tuple[int, int], tuple[int, int]] = {}
        for rank, merge in enumerate(merges):
            pair = merge.split(" ") if isinstance(merge, str) else merge
            if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(token, str) for token in pair):
                raise DataError(f"tokenizer file: merge {rank} is no pair of tokens")
            left, right = pair
            ids = [self.vocabulary.get(t) for t in (left, right, left + right.removeprefix(self._prefix))]
            if ids[0] is None or ids[1] is None or ids[2] is None:
                raise DataError(f"tokenizer file: merge {rank} is of tokens that are not in the vocabulary")
            table[ids[0], ids[1]] = (rank, ids[2])
        return table

    def encode(self, piece: str) -> list[int]:
        """The ids of a piece of text. Raises DataError for a character that no token stands for."""
        if piece not in self._cache:
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            whole = self.vocabulary.get(piece) if self._ignores_merges else None
            self._cache[piece] = self._merge(self._symbols(piece)) if whole is None else [whole]
        return self._cache[piece]

    def _symbols(self, piece: str) -> list[int]:
        ids, was_unknown = list[int](), False
        for at, char in enumerate(piece):
            token = (self._prefix if at else "") + char + (self._suffix if at == len(piece) - 1 else "")
            token_id = self.vocabulary.get(token)
            fallback = byte_tokens(self.vocabulary, token) if token_id is None and self._falls_back else None
            if token_id is not None:
                ids.append(token_id)
            elif fallback is not None:
                ids += fallback
            elif self._unknown is not None and not (was_unknown and self._fuses):
                ids.append(self._unknown)
            was_unknown = token_id is None and fallback is None
        return ids

    def _merge(self, ids: list[int]) -> list[int]:
        """Merge pairs, the one of the lowest rank first, of equal ones the leftmost: O(n log n)."""
        if len(ids) < 2:
            return ids
        symbols: list[int | None] = list(ids)
        after, before = [*range(1, len(ids)), -1], list(range(-1, len(ids) - 1))
        heap: list[tuple[int, int, int, int]] = []

        def push(at: int) -> None:
            right = after[at] if at >= 0 else -1
            left_id, right_id = symbols[at], symbols[right]
            if right >= 0 and left_id is not None and right_id is not None:
                rank = self._merges.get((left_id, right_id))
                if rank is not None:
                    heapq.heappush(heap, (rank[0], at, left_id, right_id))

        for at in range(len(ids) - 1):
            push(at)
        while heap:
            _, at, left_id, right_id = heapq.heappop(heap)
            right = after[at]
            if symbols[at] != left_id or right < 0 or symbols[right] != right_id:
                continue  # merged meanwhile
            symbols[at], symbols[right] = self._merges[left_id, right_id][1], None
            after[at] = after[right]
            if after[at] >= 0:
                before[after[at]] = at
            if before[at] >= 0:
                push(before[at])
            push(at)
        return [symbol for symbol in symbols if symbol is not None]
