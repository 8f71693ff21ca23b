"""The time of a new token by the length of the text before it: ``python -m benchmarks.generation``.

A transformer of 4 layers of 128 features that reads 1,056 characters of 128, random weights, one text. Printed are
medians of 30 tokens in milliseconds, of the program that keeps keys and values, and of one that computes the whole text
for each token, in turn.
"""

from __future__ import annotations

import time
from unittest import mock

import numpy as np

from prototorch.model import next_logits
from prototorch.model.load import model_from_text
from prototorch.model.model import Model
from prototorch.train.data_signature import text_inputs

VOCABULARY, LENGTH = 128, 1056
TEXT = """
input("text", [$length], dtype: int32)
preprocess { TextVectorization(split: character, standardize: none, vocabulary: [$words]) }
Embedding($vocabulary, 128)
PositionEmbedding($length)
repeat 4 {
  residual { LayerNormalization  MultiHeadAttention(4, 32, causal: true) }
  residual { LayerNormalization  Dense(512, activation: gelu)  Dense(128) }
}
LayerNormalization
Dense($vocabulary)
"""


def make_model() -> Model:
    """The transformer with random weights."""
    words = ", ".join(f'"{chr(0x4E00 + i)}"' for i in range(VOCABULARY - 2))
    text = TEXT.replace("$words", words).replace("$vocabulary", str(VOCABULARY)).replace("$length", str(LENGTH))
    model = model_from_text(text)
    model.build()
    return model


def time_tokens(model: Model, length: int, tokens: int = 30) -> float:
    """The median seconds of a token behind a text of so many."""
    ids = list(np.random.default_rng(0).integers(2, VOCABULARY, length))
    logits = next_logits.NextLogits(model, text_inputs(model.net), None, VOCABULARY, LENGTH)
    times = []
    for _ in range(tokens + 3):  # the first ones make the plans
        start = time.perf_counter()
        logits([0], [ids])
        times.append(time.perf_counter() - start)
        ids.append(5)
    logits.release()
    return float(np.median(times[3:]))


def main() -> None:
    """Print the table."""
    model = make_model()
    print("| tokens before | kept, ms a token | whole text, ms a token |\n| --- | --- | --- |")
    for length in (16, 256, 1000):
        cached = time_tokens(model, length)
        with mock.patch.object(next_logits, "find_decoder", return_value=None):
            recomputed = time_tokens(model, length)
        print(f"| {length} | {1e3 * cached:.2f} | {1e3 * recomputed:.2f} |")


if __name__ == "__main__":
    main()
