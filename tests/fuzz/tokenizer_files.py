"""tokenizer.json: members changed in files of the library `tokenizers`. What is accepted encodes some texts."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import prototorch as pt
from tests.fuzz.harness import FuzzFormat
from tests.fuzz.json_changes import changed, exchanged

__all__ = ["FORMAT"]

_FILES = Path(__file__).parents[1] / "tokenization" / "tokenizers_0_23.json"
_TEXTS = ["the cat sat", "Ünïcode  and\ttabs", "", "[PAD] <s> x y z 123"]


def _definitions() -> list[Any]:
    content = json.loads(_FILES.read_text(encoding="utf-8"))
    found: list[Any] = []

    def collect(value: Any) -> None:
        if isinstance(value, str) and value.startswith("{"):
            value = json.loads(value)
        if isinstance(value, dict) and isinstance(value.get("model"), dict):
            found.append(value)
        elif isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                collect(inner)

    collect(content)
    return found


def _generate(rng: random.Random) -> bytes:
    change = exchanged if rng.random() < 0.6 else changed
    return json.dumps(change(rng.choice(_definitions()), rng, rng.choice((1, 1, 1, 2, 3)))).encode()


def _load(path: Path) -> Any:
    return pt.layers.TokenizerFile(file=str(path))


def _run(layer: Any) -> Sequence[np.ndarray]:
    return [np.asarray(layer.encode(text), np.int64) for text in _TEXTS]


FORMAT = FuzzFormat("tokenizer", ".json", _generate, _load, _run)
