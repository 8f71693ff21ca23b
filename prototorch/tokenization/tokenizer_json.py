"""A tokenizer.json of the library `tokenizers`: texts to ids and back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from prototorch.errors import DataError
from prototorch.tokenization.added_tokens import read_added_tokens, split_at_tokens
from prototorch.tokenization.byte_pairs import BytePairs
from prototorch.tokenization.decoders import decode, read_decoders
from prototorch.tokenization.normalizers import normalize, read_normalizers
from prototorch.tokenization.pre_tokenizers import pre_tokenize, read_pre_tokenizers
from prototorch.tokenization.size_limit import SizeLimit
from prototorch.tokenization.templates import read_template
from prototorch.tokenization.unigram import Unigram
from prototorch.tokenization.word_pieces import WordPieces, Words

__all__ = ["MAX_BYTES", "TokenizerJson"]

MAX_BYTES = 12 << 20
_MODELS: dict[str, Any] = {"BPE": BytePairs, "WordPiece": WordPieces, "Unigram": Unigram, "WordLevel": Words}
_PADDING = ("[PAD]", "<pad>", "<|pad|>", "<|padding|>")


class TokenizerJson:
    """Encodes as the library does, with the special tokens of the file's template; its truncation is not used.

    Args:
        text: of the file.

    Attributes:
        tokens: id -> token, added ones included. special_ids: those that decoding leaves out. padding_id: None where
        the file has no token for it.

    Raises:
        DataError: what is no such file, is damaged, or not supported.
    """

    def __init__(self, text: str):
        if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
            raise DataError(f"tokenizer file: has more than {MAX_BYTES:,} bytes")
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"tokenizer file: is no JSON: {str(error)[:200]}") from None
        if not isinstance(data, dict) or not isinstance(data.get("model"), dict):
            raise DataError("tokenizer file: expected an object with a model, as tokenizer.json has it")
        kind = data["model"].get("type") or _guess_kind(data["model"])
        if kind not in _MODELS:
            raise DataError(f"tokenizer file: the model {str(kind)[:60]!r} is none of {', '.join(_MODELS)}")
        self._model = _MODELS[kind](data["model"])
        self._normalizers = read_normalizers(data.get("normalizer"))
        self._pre_tokenizers = read_pre_tokenizers(data.get("pre_tokenizer"))
        self._decoders = read_decoders(data.get("decoder"))
        added = read_added_tokens(data.get("added_tokens") or [])
        self._raw_tokens = [t for t in added if not t.is_normalized]
        self._normalized_tokens = [t for t in added if t.is_normalized]
        self._ids: dict[str, int] = {**self._model.vocabulary, **{t.content: t.id for t in added}}
        self.tokens = {i: token for token, i in self._ids.items()}
        self.special_ids = frozenset(t.id for t in added if t.is_special)
        self._before, self._after = read_template(data.get("post_processor"))
        if missing := [i for i in (*self._before, *self._after) if i not in self.tokens]:
            raise DataError(f"tokenizer file: the post-processor has the id {missing[0]}, which is no token")
        self.padding_id = self._find_padding(data.get("padding"))

    def token_id(self, token: str) -> int | None:
        """The id of a token, None for one that is not in the vocabulary."""
        return self._ids.get(token)

    def encode(self, text: str, with_template: bool = True) -> list[int]:
        """The ids of a text, with those of the template. Raises DataError where the file makes a text much longer."""
        ids = list[int](self._before if with_template else ())
        is_first = True
        limit, piece_limit = SizeLimit("normalizers", len(text)), SizeLimit("pre-tokenizers", len(text))
        for part in split_at_tokens(text, self._raw_tokens):
            for inner in [part] if isinstance(part, int) else self._normalize(part, limit):
                ids += [inner] if isinstance(inner, int) else self._encode_part(inner, is_first, piece_limit)
                is_first = False
        return [*ids, *self._after] if with_template else ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, without special tokens; ids that are none are left out. Raises DataError
        where the file makes tokens much longer."""
        tokens = [self.tokens[i] for i in ids if i in self.tokens and i not in self.special_ids]
        if not self._decoders:
            return " ".join(tokens)
        return "".join(decode(self._decoders, tokens))

    def _normalize(self, text: str, limit: SizeLimit) -> list[str | int]:
        return split_at_tokens(normalize(self._normalizers, text, limit), self._normalized_tokens)

    def _encode_part(self, text: str, is_first: bool, limit: SizeLimit) -> list[int]:
        pieces = pre_tokenize(self._pre_tokenizers, text, is_first, limit)
        return [i for piece, _ in pieces if piece for i in self._model.encode(piece)]

    def _find_padding(self, padding: Any) -> int | None:
        pad_id = padding.get("pad_id") if isinstance(padding, dict) else None
        if isinstance(pad_id, int) and pad_id in self.tokens:
            return pad_id
        return next((self._ids[name] for name in _PADDING if name in self._ids), None)


def _guess_kind(model: dict[str, Any]) -> str:
    """The model of a file of an old version, which does not name it."""
    if isinstance(model.get("vocab"), list):
        return "Unigram"
    return "BPE" if "merges" in model else "WordPiece" if "continuing_subword_prefix" in model else "WordLevel"
