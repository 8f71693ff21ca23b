"""The logits of the next token of texts, from a decoder where the net has one, else from runs over the whole texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prototorch.data.text_source import TextInput
from prototorch.errors import UsageError
from prototorch.model.decoder import TokenDecoder, find_decoder, release_decoder
from prototorch.model.model import Model
from prototorch.model.prediction import output_kinds

__all__ = ["NextLogits"]

MAX_OPEN_WINDOW = 1024  # ids that a net of any length is given
CAUSAL_TOLERANCE = 1e-3  # of logits, which the two runs compute by the same kernels
MIN_CAPACITY = 64


class NextLogits:
    """Gives the logits of the next tokens.

    As long as all tokens fit the input they come from a `TokenDecoder`, which computes the new ones alone. Behind it,
    and for nets that have none, each is computed from the last tokens that fit.

    inputs: those of the net that are texts; sources: the ids of the first of two [texts, length]. size: of the
    vocabulary. longest: the largest number of tokens that a text may get.
    """

    def __init__(self, model: Model, inputs: Sequence[TextInput], sources: np.ndarray | None, size: int, longest: int):
        self.model, self.target, self.size = model, inputs[-1], size
        self.sources = sources
        self.window = self.target.length or MAX_OPEN_WINDOW
        self._is_logits = output_kinds(model).get(model.net.outputs[0]) == "softmax"
        self._is_checked = False
        self._capacity = min(self.window, max(MIN_CAPACITY, 1 << (longest - 1).bit_length()))
        self._source_input = inputs[0] if sources is not None else None
        self._decoder: TokenDecoder | None = None
        self._seen: list[int] = []  # the number of tokens of each text that the decoder has had
        self._begins_anew = True

    def __call__(self, numbers: Sequence[int], ids: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """The logits, float64 [tokens], for some of the texts, by their numbers and ids so far.

        Raises UsageError for a net that predicts no next token.
        """
        rows = self._from_decoder(numbers, ids) if max(map(len, ids)) <= self._capacity else None
        if rows is None:
            rows = [self._run_on_window(n, list(i)) for n, i in zip(numbers, ids, strict=True)]
        return [self._as_logits(y)[: self.size] for y in rows]

    def release(self) -> None:
        """Say that no more tokens are needed."""
        decoder, self._decoder = self._decoder, None
        if decoder is not None:
            release_decoder(decoder)

    def _from_decoder(self, numbers: Sequence[int], ids: Sequence[Sequence[int]]) -> list[np.ndarray] | None:
        """From the decoder; None where there is none."""
        if self._begins_anew:
            self._begins_anew, batch = False, len(numbers)
            self._decoder = find_decoder(
                self.model, self.target, self._source_input, self.sources, batch, self._capacity
            )
            self._seen = [0] * batch
        if self._decoder is None:
            return None
        new: list[Sequence[int]] = [()] * len(self._seen)
        for number, sequence in zip(numbers, ids, strict=True):
            new[number] = sequence[self._seen[number] :]
            self._seen[number] = len(sequence)
        y = self._decoder.logits(new)
        steps = self.target.length or self._capacity
        self._check_shape((steps, *y.shape[1:]), steps)
        return [y[number] for number in numbers]

    def _run_on_window(self, number: int, ids: list[int]) -> np.ndarray:
        """From runs over all tokens that fit."""
        ids = ids[-self.window :]
        y = self._run(number, ids, 0)
        length = self.target.length
        if not self._is_checked and (length is None or len(ids) < length):
            other = self._run(number, ids, self.size - 1)
            if np.abs(other - y).max() > CAUSAL_TOLERANCE * max(1.0, np.abs(y).max()):
                raise UsageError(
                    f"{self.model.net.name!r} generates no texts: its output at a step depends on the steps after it; "
                    "write MultiHeadAttention { causal: true }, and recurrent layers that go forward"
                )
            self._is_checked = True
        return y

    def _run(self, number: int, ids: list[int], padding: int) -> np.ndarray:
        steps = self.target.length or max(16, 1 << (len(ids) - 1).bit_length())
        window = np.full((1, steps), padding, np.int32)
        window[0, : len(ids)] = ids
        columns = window if self.sources is None else [self.sources[number : number + 1], window]
        y = np.asarray(self.model.predict_on_batch(columns), np.float64)
        self._check_shape(y.shape[1:], steps)
        return y[0, len(ids) - 1]

    def _check_shape(self, shape: tuple[int, ...], steps: int) -> None:
        """Raise UsageError for an output of another shape than [steps, tokens]."""
        if len(shape) != 2 or shape[0] != steps or shape[1] < self.size:
            raise UsageError(
                f"{self.model.net.name!r} generates no texts: its output {self.model.net.outputs[0]!r} has the shape "
                f"{list(shape)}, expected [{steps}, at least {self.size}]: the logits of the next token at "
                "each step"
            )

    def _as_logits(self, y: np.ndarray) -> np.ndarray:
        if self._is_logits:
            return y
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(y) if y.min() >= 0 and abs(y.sum() - 1) < 1e-3 else y
