"""Numbers and categories as indices and as rows of zeros and ones (Keras' preprocessing layers)."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import numpy as np

from prototorch import ops
from prototorch.errors import UsageError
from prototorch.layers.adapted_layer import AdaptedLayer
from prototorch.layers.base import Layer
from prototorch.layers.context import ArrayValue, Context
from prototorch.schema import example, field
from prototorch.schema.neutral_arguments import neutral

MAX_TOKENS = 1 << 20
MAX_INT32 = 2**31 - 1


class Discretization(AdaptedLayer):
    """Numbers as the indices of the bins that they lie in (Keras). Input [batch, ...], output int32 of the same shape.

    n boundaries make n + 1 bins: bin i is from boundary i - 1 (included) to boundary i. With ``num_bins`` the
    boundaries are quantiles of the data: of the training data in the first `fit`, or of those of `adapt`.
    """

    channel_axis_note = "each element is by itself"
    normalizes = True
    learned_fields = ("bin_boundaries",)
    positional = ("bin_boundaries", "num_bins", "epsilon")
    mask_policy = "end"
    neutral_arguments = {
        "output_mode": neutral("int", hint="a CategoryEncoding behind it makes rows of zeros and ones"),
        "sparse": neutral(False, hint="it belongs to another output_mode"),
    }

    bin_boundaries: list[float] | None = field(default=None, doc="The rising boundaries of the bins; none: learned.")
    num_bins: int | None = field(default=None, min=2, max=MAX_TOKENS, doc="The number of bins where they are learned.")
    epsilon: float = field(default=0.01, above=0, max=1, doc="The error of the quantiles that are learned.")

    examples = [
        example("Discretization { bin_boundaries: [-0.5, 0, 0.5] }", inputs=[(3,)]),
        example('Discretization { bin_boundaries: [0.25, 1]  name: "bins" }', inputs=[(2, 3)]),
    ]

    def check(self) -> None:
        """The boundaries rise."""
        if self.bin_boundaries is not None and list(self.bin_boundaries) != sorted(self.bin_boundaries):
            self.refuse("bin_boundaries must rise", "bin_boundaries")

    def summarize(self, batch: np.ndarray, summary: Any) -> Any:
        if self.num_bins is None:
            raise UsageError("Discretization: write num_bins, the number of bins that are learned, or bin_boundaries")
        part = _quantile_summary(batch.astype(np.float32), self.epsilon)
        union = part if summary is None else np.concatenate((part, summary), 1)
        return _compressed(union[:, np.argsort(union[0])], self.epsilon)

    def set_from_summary(self, summary: Any) -> None:
        assert self.num_bins is not None
        boundaries = _compressed(summary, 1.0 / self.num_bins)[0, :-1]
        self.set_field("bin_boundaries", tuple(float(b) for b in boundaries))

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        boundaries = np.asarray(self.bin_boundaries or (0.0,), np.float32)
        values = x if x.dtype == "float32" else ops.cast(x, dtype="float32")
        return ops.cast(ops.searchsorted(boundaries, values, side="right"), dtype="int32")


def _quantile_summary(values: np.ndarray, epsilon: float) -> np.ndarray:
    """Values and how many stand for each, float [2, n], as Keras summarizes data for quantiles."""
    values = np.sort(values, axis=None)
    step = max(values.size / (1.0 / epsilon), 1)
    boundaries = values[int(step - 1) :: int(step)]
    return np.stack([boundaries, np.ones_like(boundaries) * step])


def _compressed(summary: np.ndarray, epsilon: float) -> np.ndarray:
    """A summary with values at steps of ``epsilon`` of the data (Keras)."""
    if summary.shape[1] * epsilon < 1:
        return summary
    percents = epsilon + np.arange(0.0, 1.0, epsilon)
    cumulative_weights = summary[1].cumsum()
    shares = cumulative_weights / cumulative_weights[-1]
    values = np.interp(percents, shares, summary[0])
    weights = np.interp(percents, shares, cumulative_weights)
    return np.stack((values, weights - np.concatenate((np.array([0]), weights[:-1])))).astype("float32")


class CategoryEncoding(Layer):
    """Indices as rows of zeros and ones (Keras). Input [batch], [batch, 1] or [batch, n] of integers, output float32.

    ``multi_hot`` and ``count`` give [batch, num_tokens]: 1 for each index that is there, or how often it is there.
    ``one_hot`` gives a row for each index: [batch, n, num_tokens], of [batch, 1] input [batch, num_tokens].
    """

    channel_axis_note = "the tokens are the last axis, as in Keras"
    normalizes = True
    consumes_features = True
    positional = ("num_tokens", "output_mode")
    neutral_arguments = {"sparse": neutral(False, hint="tensors are dense")}

    num_tokens: int = field(min=1, max=MAX_TOKENS, doc="The number of indices: the largest plus 1.")
    output_mode: Literal["multi_hot", "one_hot", "count"] = field(default="multi_hot", doc="What a row holds.")

    examples = [
        example("CategoryEncoding { num_tokens: 4 }", inputs=[(3,)], dtype="int32", range=(0, 4)),
        example("CategoryEncoding { num_tokens: 4  output_mode: one_hot }", inputs=[(1,)], dtype="int32", range=(0, 4)),
        example("CategoryEncoding { num_tokens: 3  output_mode: count }", inputs=[(4,)], dtype="int64", range=(0, 3)),
    ]

    def index_count(self) -> int | None:
        return self.num_tokens

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        x = ops.cast(x, dtype="int32") if x.dtype.startswith("float") else x
        if self.output_mode == "one_hot" and x.ndim > 1 and x.shape[-1] == 1:
            x = ops.reshape(x, shape=tuple(x.shape[:-1]))
        rows = ops.one_hot(x, classes=self.num_tokens)
        if self.output_mode == "one_hot" or x.ndim == 1:
            return rows
        return ops.max(rows, axis=-2) if self.output_mode == "multi_hot" else ops.sum(rows, axis=-2)


class IntegerLookup(AdaptedLayer):
    """Integers as their places in a vocabulary (Keras). Input [batch, ...] of integers, output int64 of the same shape.

    Integers that are not in it get the indices before it: ``num_oov_indices`` of them, by the remainder. With a
    ``mask_token`` that integer is 0, and all others come behind it. The vocabulary is learned where it is left out: the
    most frequent first, of two equally frequent ones the larger.
    """

    channel_axis_note = "each element is by itself"
    normalizes = True
    learned_fields = ("vocabulary",)
    positional = ("max_tokens", "num_oov_indices", "mask_token", "oov_token", "vocabulary")
    neutral_arguments = {
        "output_mode": neutral("int", hint="a CategoryEncoding behind it makes rows of zeros and ones"),
        "oov_method": neutral("floormod", hint="integers outside the vocabulary go to indices by the remainder"),
        "salt": neutral(None, hint="it belongs to another oov_method"),
        "oov_token": neutral(-1, hint="integers outside the vocabulary have no integer that stands for them"),
        "invert": neutral(False, hint="get_vocabulary() gives the integers by index"),
        "vocabulary_dtype": neutral("int64", hint="integers have 64 bits"),
        "idf_weights": neutral(None, hint="it belongs to another output_mode"),
        "sparse": neutral(False, hint="it belongs to another output_mode"),
        "pad_to_max_tokens": neutral(False, True, hint="it belongs to another output_mode"),
    }

    max_tokens: int | None = field(default=None, min=2, max=MAX_TOKENS, doc="The largest number of indices.")
    num_oov_indices: int = field(default=1, min=1, max=MAX_TOKENS, doc="The indices of integers that are not in it.")
    mask_token: int | None = field(default=None, doc="The integer that stands for no value; none: there is none.")
    vocabulary: list[int] | None = field(default=None, doc="The integers in the order of their indices; none: learned.")

    examples = [
        example("IntegerLookup { vocabulary: [12, 36, 1138, 42] }", inputs=[(3,)], dtype="int64", range=(0, 60)),
        example(
            "IntegerLookup { vocabulary: [3, 1]  num_oov_indices: 2  mask_token: 0 }",
            inputs=[(2, 2)],
            dtype="int32",
            range=(0, 6),
        ),
    ]

    def check(self) -> None:
        """No integer is there twice."""
        tokens = self.vocabulary
        if tokens is not None and (not tokens or len(set(tokens)) < len(tokens) or self.mask_token in tokens):
            self.refuse("vocabulary needs different integers, and not the mask_token", "vocabulary")

    def summarize(self, batch: np.ndarray, summary: Any) -> Any:
        if batch.dtype.kind not in "iu":
            raise UsageError(f"IntegerLookup.adapt: expected integers, got {batch.dtype}")
        values, counts = np.unique(batch, return_counts=True)
        summary = Counter() if summary is None else summary
        summary.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        return summary

    def set_from_summary(self, summary: Any) -> None:
        tokens = sorted((t for t in summary if t != self.mask_token), key=lambda t: (summary[t], t), reverse=True)
        room = MAX_TOKENS if self.max_tokens is None else self.max_tokens
        tokens = tokens[: max(room - self._first_index(), 0)]
        if not tokens:
            raise UsageError("IntegerLookup.adapt: the data leave no integer for the vocabulary")
        self.set_field("vocabulary", tuple(tokens))

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[int]:
        """The integers by index (Keras); -1 stands for those outside of it."""
        specials = [] if self.mask_token is None else [self.mask_token]
        specials += [-1] * self.num_oov_indices
        return [*(specials if include_special_tokens else ()), *(self.vocabulary or ())]

    def vocabulary_size(self) -> int:
        """The number of indices."""
        return len(self.get_vocabulary())

    def _first_index(self) -> int:
        return self.num_oov_indices + (self.mask_token is not None)

    def call(self, ctx: Context, x: ArrayValue) -> Any:
        tokens = np.asarray(self.vocabulary or (0,), np.int64)
        order = np.argsort(tokens)
        values = x if x.dtype == "int64" else ops.cast(x, dtype="int64")
        places = ops.minimum(ops.searchsorted(tokens[order], values), np.int64(len(tokens) - 1))
        is_known = ops.equal(ops.take(tokens[order], places), values)
        unknown = ops.remainder(values, np.int64(self.num_oov_indices)) + np.int64(self.mask_token is not None)
        index = ops.where(is_known, ops.take(order.astype(np.int64) + self._first_index(), places), unknown)
        if self.mask_token is None:
            return index
        return ops.where(ops.equal(values, np.int64(self.mask_token)), np.int64(0), index)
