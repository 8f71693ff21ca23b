"""Texts as ids by a tokenizer.json of the library `tokenizers`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from prototorch.data.safe_io import expand_path, printable_path, read_file
from prototorch.errors import DataError, UsageError
from prototorch.layers.tokenizer import Tokenizer, find_beside
from prototorch.schema import example, field
from prototorch.schema.block_source import find_span
from prototorch.tokenization.tokenizer_json import MAX_BYTES, TokenizerJson

MAX_STRING = 1 << 19  # characters of a string of the definition
_EXAMPLE = (
    '{\\"model\\": {\\"type\\": \\"WordLevel\\", \\"vocab\\": {\\"[PAD]\\": 0, \\"[UNK]\\": 1, \\"a\\": 2}, '
    '\\"unk_token\\": \\"[UNK]\\"}}'
)


class TokenizerFile(Tokenizer):
    """Texts as ids by a ``tokenizer.json`` of the library `tokenizers`: BPE, WordPiece, Unigram or WordLevel, with its
    normalizer, pre-tokenizer, added tokens and template. Data that are texts become int32 [batch, time].

    The file is read without the library, runs nothing, and has at most 12 MiB; what is not supported is an error. A
    saved model and its text hold it (``definition``). Texts are padded with the file's padding token, and cut to the
    length; the file's own truncation is not used.
    """

    file_field: ClassVar[str] = "file"

    file: str | None = field(default=None, doc="The path of a tokenizer.json.")
    pad_token: str | None = field(default=None, doc="The token that fills up a text; default: that of the file.")
    definition: list[str] | None = field(default=None, doc="The content of the file, in parts of at most 512 Ki.")

    examples = [
        example(f'TokenizerFile {{\n  definition: "{_EXAMPLE}"\n}}', inputs=[(4,)], dtype="int32", range=(0, 3)),
    ]

    def check(self) -> None:
        """It has a file, or what is in one; a file that Python names is read at once."""
        if (self.file is None) == (self.definition is None):
            self.refuse('expected the file of a tokenizer, file: "tokenizer.json", or its definition', "file")
        if self.definition is not None:
            self._engine()
        elif find_span(self) is None and self.file is not None:
            self._read(expand_path(self.file))

    def is_adapted(self) -> bool:
        return self.definition is not None

    def adapt(self, data: Any) -> None:
        """Raises UsageError: the vocabulary is that of the file."""
        raise UsageError("TokenizerFile: its vocabulary is that of its file, and is not learned")

    def get_vocabulary(self) -> list[str]:
        tokens = self._engine().tokens
        return [tokens.get(i, "") for i in range(max(tokens) + 1)]

    def vocabulary_size(self) -> int:
        return max(self._engine().tokens) + 1

    def encode(self, text: str) -> list[int]:
        return self._engine().encode(text)

    def encode_part(self, text: str) -> list[int]:
        return self._engine().encode(text, with_template=False)

    def decode(self, ids: Iterable[int]) -> str:
        left_out = self.special_ids()
        return self._engine().decode(i for i in map(int, ids) if i not in left_out)

    def token_id(self, token: str) -> int | None:
        return self._engine().token_id(token)

    def padding_id(self) -> int:
        engine = self._engine()
        padding = engine.padding_id if self.pad_token is None else engine.token_id(self.pad_token)
        if padding is None:
            raise UsageError(
                "TokenizerFile: texts of different lengths are padded, and the file has no padding token"
                f'{f" {self.pad_token!r}" if self.pad_token else ""}: name one of its tokens, pad_token: "..."'
            )
        return padding

    def special_ids(self) -> frozenset[int]:
        engine = self._engine()
        end_ids = [engine.token_id(name) for name in (self.start_token, self.end_token) if name is not None]
        padding_id = engine.padding_id if self.pad_token is None else engine.token_id(self.pad_token)
        padding = () if padding_id is None else (padding_id,)
        return engine.special_ids | {*padding, *(i for i in end_ids if i is not None)}

    def resolve(self, folder: str | None) -> None:
        if self.file is not None:
            self._read(find_beside(self.file, folder))

    def _read(self, path: Path) -> None:
        """Read the file. Raises DataError for what is no tokenizer."""
        try:
            text = bytes(read_file(path, MAX_BYTES)).decode("utf-8-sig")
            TokenizerJson(text)
        except UnicodeDecodeError as error:
            raise DataError(f"{printable_path(path)}: is not UTF-8 text (byte {error.start})") from None
        except DataError as error:
            place = "" if str(error).startswith(printable_path(path)) else f"{printable_path(path)}: "
            raise DataError(f"{place}{error}") from None
        short = json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
        parts = tuple(short[at : at + MAX_STRING] for at in range(0, len(short), MAX_STRING))
        self.set_field("definition", parts).set_field("file", None)

    def _engine(self) -> TokenizerJson:
        """The tokenizer, made once for a definition. Raises UsageError where the file has not been read."""
        if self.definition is None:
            raise UsageError("TokenizerFile: its file has not been read")
        cached = self.__dict__.get("_engine_cache")
        if cached is None or cached[0] is not self.definition:
            try:
                cached = self.__dict__["_engine_cache"] = (self.definition, TokenizerJson("".join(self.definition)))
            except DataError as error:
                self.refuse(str(error), "definition")
        return cached[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_engine_cache"}
