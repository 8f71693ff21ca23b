"""The logits of the next token of several texts: of each only the new tokens are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prototorch.data.text_source import TextInput
from prototorch.engine.backends.executor import Executor
from prototorch.errors import ModelError
from prototorch.graph.decoding import POSITION, STEP_COUNT, trace_decoding, trace_memory
from prototorch.graph.plan import make_plan
from prototorch.graph.trace import Trace
from prototorch.layers.tokenizer import Tokenizer
from prototorch.model.model import Model
from prototorch.runtime.executor import make_executor
from prototorch.runtime.variables import Variables
from prototorch.spec import Spec

__all__ = ["TokenDecoder", "find_decoder", "release_decoder"]


class TokenDecoder:
    """Keeps, for a batch of sequences, what a net needs of their earlier tokens (see `graph.decoding`).

    capacity: the largest number of tokens of a sequence. Raises ModelError for a net that cannot be computed token by
    token: one that is not causal, or has a layer that keeps nothing.
    """

    def __init__(self, model: Model, target: TextInput, source: TextInput | None, batch: int, capacity: int):
        self.model, self.target, self.source = model, target, source
        self.batch, self.capacity = batch, capacity
        self._plan_cache = model.trainer.plan_cache
        precision = self._plan_cache.backend.precision
        self._dtypes = precision.low_dtype, precision.float_dtype
        self._lengths = np.zeros(batch, np.int32)
        self._executors: dict[int, Executor] = {}
        self._memory_trace: Trace | None = None
        self._memory: Executor | None = None
        self._source_length: int | None = None
        self._variables = _with_weights_of(model)
        if any(not isinstance(layer, Tokenizer) for layer in model.net.preprocess):
            raise ModelError("its preprocess block has layers over whole texts")
        if source is None:
            self._trace_memory(None)
            self._executor(1)

    def is_for(self, model: Model, target: TextInput, source: TextInput | None, batch: int, capacity: int) -> bool:
        """Whether it is one for these arguments, and the model is as it was."""
        own = self.target, self.source, self.batch, self.capacity
        return own == (target, source, batch, capacity) and self._plan_cache is model.trainer.plan_cache

    def begin(self, sources: np.ndarray | None = None) -> None:
        """Begin new sequences. sources: the ids of the texts that a net of two inputs reads, int32 [batch, length]."""
        self._lengths[:] = 0
        if self.source is None or sources is None:
            return
        if self._source_length != sources.shape[1]:
            self._trace_memory(sources.shape[1])
            self._executors.clear()
            self._executor(1)
        if self._memory is not None:
            with self.model.trainer.lock:
                self._memory({self.source.name: sources})

    def logits(self, tokens: Sequence[Sequence[int]]) -> np.ndarray:
        """The net's output after the next tokens of each sequence (none for one that has ended), float64 [batch, n].

        Raises ModelError where they do not fit the capacity.
        """
        counts = np.array([len(ids) for ids in tokens], np.int32)
        if (self._lengths + counts).max() > self.capacity:
            raise ModelError(f"a sequence has more than {self.capacity} tokens")
        longest = int(counts.max())
        steps = 1 if longest <= 1 else min(self.capacity, 1 << (longest - 1).bit_length())
        ids = np.zeros((self.batch, steps), np.int32)
        for row, sequence in zip(ids, tokens, strict=True):
            row[: len(sequence)] = sequence
        executor = self._executor(steps)
        with self.model.trainer.lock:
            outputs = executor({self.target.name: ids, POSITION: self._lengths, STEP_COUNT: counts})
            y = np.asarray(self._plan_cache.backend.to_numpy(next(iter(outputs.values()))))
            result = y[np.arange(self.batch), np.maximum(counts - 1, 0)].astype(np.float64)
        self._lengths += counts
        return result

    def _executor(self, steps: int) -> Executor:
        if steps not in self._executors:
            net, memory = self.model.net, self._memory_trace
            assert memory is not None
            traced = trace_decoding(net, self.target.name, memory, self.batch, steps, self.capacity, *self._dtypes)
            self._check_weights(traced)
            y = traced.values[net.outputs[0]]
            if y.ndim != 3 or y.shape[1] != steps:
                raise ModelError("its output has no steps")
            self._executors[steps] = self._make_executor(traced, {net.outputs[0]: y})
        return self._executors[steps]

    def _trace_memory(self, length: int | None) -> None:
        specs = {} if self.source is None or length is None else {self.source.name: Spec((self.batch, length), "int32")}
        self._memory_trace = trace_memory(self.model.net, self.target.name, specs, *self._dtypes)
        self._check_weights(self._memory_trace)
        self._source_length = length
        self._memory = self._make_executor(self._memory_trace, {}) if self._memory_trace.updates else None

    def _check_weights(self, traced: Trace) -> None:
        """Raise ModelError where a weight depends on the number of steps."""
        specs = self.model.weight_specs
        for name, weight in traced.weights.items():
            if name not in specs or specs[name].spec != weight.spec:
                raise ModelError(f"the weight {name!r} depends on the number of steps")

    def _make_executor(self, traced: Trace, outputs: dict[str, Any]) -> Executor:
        for name, value in traced.graph.states.items():
            if name not in self._variables:
                self._variables.create(name, np.zeros(value.shape, value.dtype), own=True)
        backend = self._plan_cache.backend
        return make_executor(make_plan(traced.graph, outputs, traced.updates, backend), backend, self._variables)


def find_decoder(
    model: Model, target: TextInput, source: TextInput | None, sources: np.ndarray | None, batch: int, capacity: int
) -> TokenDecoder | None:
    """A decoder at the begin of its sequences; None for a model that cannot be computed token by token.

    sources: the ids that the input ``source`` gets, int32 [batch, length]. It may be one that was given back by
    `release_decoder`, whose plans are ready.
    """
    if any(model.net.unknown_sizes()):
        model.build(**{node.name: [capacity] for node in model.net.unknown_sizes()})
    idle, model.idle_decoder = model.idle_decoder, None
    try:
        if idle is None or not idle.is_for(model, target, source, batch, capacity):
            idle = TokenDecoder(model, target, source, batch, capacity)
        idle.begin(sources)
    except ModelError:
        return None
    return idle


def release_decoder(decoder: TokenDecoder) -> None:
    """Keep a decoder, which nobody uses any more, for the next text of its model."""
    decoder.model.idle_decoder = decoder


def _with_weights_of(model: Model) -> Variables:
    """Variables that have the model's weights, and room for others."""
    variables = Variables()
    weights = model.weight_specs
    for prefix in dict.fromkeys(name.split("/")[0] + "/" for name in weights if "/" in name):
        variables.share(prefix, model.variables, prefix)
    return variables
