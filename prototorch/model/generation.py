"""Generation of texts, token by token, with a model that reads texts and predicts the next token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from prototorch.data.text_source import TextInput
from prototorch.errors import UsageError
from prototorch.layers.tokenizer import Tokenizer
from prototorch.model.model import Model
from prototorch.model.next_logits import NextLogits
from prototorch.train.argument_checks import check_integer
from prototorch.train.data_signature import text_inputs

__all__ = ["generate", "generate_stream"]


def generate(
    model: Model,
    prompt: str | Sequence[str] = "",
    max_new_tokens: int = 200,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    seed: int = 0,
    stop: str | Sequence[str] = (),
) -> str | list[str]:
    """The text that a model generates after a prompt, without it; of a model with two inputs the text for it.

    A model of one input has learned windows of a text (``data { text: windows }``): its output [time, tokens] predicts
    after each step the next token. One of two inputs has learned pairs: it reads the prompt, and what it has generated
    so far. Each token is computed from the last ones that fit the input. As long as all of them do, only the new token
    is computed: the keys and values of attention and the states of recurrent layers are kept.

    Args:
        prompt: a text, or several, whose texts are generated together: a list of texts.
        max_new_tokens: the largest number of tokens; the tokenizer's ``end_token`` ends a text before.
        temperature: the logits are divided by it before a token is drawn; 0 takes the most probable token.
        top_k: the number of the most probable tokens that are drawn from; None: all.
        seed: of the random numbers: with the same seed it is the same text. Those of the prompts differ.
        stop: a text, or several: each text ends before the first of them.

    Raises UsageError for a model that predicts no next token, and for arguments out of range.
    """
    texts = [""] * len(_check_prompts(prompt))
    for number, part in generate_stream(
        model, prompt, max_new_tokens, temperature=temperature, top_k=top_k, seed=seed, stop=stop
    ):
        texts[number] += part
    return texts[0] if isinstance(prompt, str) else texts


def generate_stream(
    model: Model,
    prompt: str | Sequence[str] = "",
    max_new_tokens: int = 200,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    seed: int = 0,
    stop: str | Sequence[str] = (),
) -> Iterator[tuple[int, str]]:
    """The texts of `generate`, part by part as they are generated: each time the number of the prompt, from 0, and what
    comes next in its text. Arguments and errors are those of `generate`.

    A part that may be the begin of a ``stop`` is held back until that is known.
    """
    prompts = _check_prompts(prompt)
    _check_arguments(temperature, top_k)
    stops = _check_stops(stop)
    limit = check_integer("max_new_tokens", max_new_tokens, 0)
    generators = [np.random.Philox(check_integer("seed", seed, 0)).jumped(i) for i in range(len(prompts))]
    inputs = text_inputs(model.net)
    if len(inputs) not in (1, 2) or len(inputs) != len(model.net.inputs) or len(model.net.outputs) != 1:
        raise UsageError(
            f"{model.net.name!r} generates no texts: it has {len(model.net.inputs)} inputs, of which {len(inputs)} are "
            f"texts, and {len(model.net.outputs)} outputs; expected one or two, all texts, and one output"
        )
    tokenizer = model.net.tokenizers()[inputs[-1].name]
    end = None if tokenizer.end_token is None else tokenizer.token_id(tokenizer.end_token)
    texts = [
        _GeneratedText(number, ids, tokenizer, stops, np.random.Generator(bits))
        for number, (ids, bits) in enumerate(zip(_first_ids(tokenizer, prompts, inputs), generators, strict=True))
    ]
    sources = inputs[0].encode(prompts) if len(inputs) == 2 else None
    size = tokenizer.vocabulary_size()
    next_logits = NextLogits(model, inputs, sources, size, max(len(t.ids) for t in texts) + limit)
    limit = min(limit, next_logits.window) if sources is not None else limit
    banned = np.array(sorted(tokenizer.special_ids() - {end}), np.int64)
    try:
        for _ in range(limit):
            going = [text for text in texts if not text.is_complete]
            if not going:
                break
            for text, logits in zip(going, next_logits([t.number for t in going], [t.ids for t in going]), strict=True):
                logits[banned] = -np.inf
                token = _draw(logits, temperature, top_k, text.rng)
                text.is_complete = token == end
                if not text.is_complete and (part := text.add(token)):
                    yield text.number, part
    finally:
        next_logits.release()
    for text in texts:
        if part := text.rest():
            yield text.number, part


_PART_OF_CHARACTER = "\N{REPLACEMENT CHARACTER}"  # bytes that the next token may complete


class _GeneratedText:
    """One text as it is generated: its ids, those of the prompt included, and how much of it has been given."""

    def __init__(self, number: int, ids: list[int], tokenizer: Tokenizer, stops: list[str], rng: np.random.Generator):
        self.number, self.ids, self.rng = number, ids, rng
        self.is_complete = self.is_stopped = False
        self._tokenizer, self._stops = tokenizer, stops
        self._new_ids: list[int] = []
        self._begin = self._end = 0  # of the last ids whose text is known whole: the next ones are decoded behind them
        self._text, self._length = "", 0  # the text so far, and how much of it was given

    def add(self, token: int) -> str:
        """The next part of the text, with a token more: from where the last part ended."""
        self.ids.append(token)
        self._new_ids.append(token)
        before = self._tokenizer.decode(self._new_ids[self._begin : self._end])
        after = self._tokenizer.decode(self._new_ids[self._begin :])
        if len(after) <= len(before) or after.endswith(_PART_OF_CHARACTER):
            return ""
        searched = max(0, len(self._text) - max(map(len, self._stops), default=0))
        self._text += after[len(before) :]
        self._begin, self._end = self._end, len(self._new_ids)
        ends = [place for stop in self._stops if (place := self._text.find(stop, searched)) >= 0]
        if ends:
            self._text, self.is_complete, self.is_stopped = self._text[: min(ends)], True, True
            return self._part(len(self._text))
        return self._part(len(self._text) - self._begun_stop_length())

    def rest(self) -> str:
        """The part that was held back."""
        if not self.is_stopped:
            self._text = self._tokenizer.decode(self._new_ids)  # an unfinished character included
        return self._part(len(self._text))

    def _part(self, end: int) -> str:
        begin, self._length = self._length, max(self._length, end)
        return self._text[begin:end]

    def _begun_stop_length(self) -> int:
        """Of the last characters, those that may be the begin of a stop."""
        lengths = [n for stop in self._stops for n in range(1, len(stop)) if self._text.endswith(stop[:n])]
        return max(lengths, default=0)


def _first_ids(tokenizer: Tokenizer, prompts: list[str], inputs: Sequence[TextInput]) -> list[list[int]]:
    """The first ids of each text. Raises UsageError for a prompt without tokens."""
    if len(inputs) == 2:
        return [[tokenizer.edge_ids()[0]] for _ in prompts]
    start = None if tokenizer.start_token is None else tokenizer.token_id(tokenizer.start_token)
    ids = [tokenizer.encode_part(prompt) or ([] if start is None else [start]) for prompt in prompts]
    if not all(ids):
        raise UsageError("generate: the prompt has no tokens; give the begin of a text, of at least one token")
    return ids


def _check_prompts(prompt: Any) -> list[str]:
    prompts = list(prompt) if isinstance(prompt, list | tuple) else [prompt]
    wrong = next((p for p in prompts if not isinstance(p, str)), None)
    if wrong is not None or not prompts:
        name = "an empty list" if not prompts else type(wrong).__name__
        raise UsageError(f"generate: prompt must be a string or a list of strings, not {name}")
    return prompts


def _check_stops(stop: Any) -> list[str]:
    stops: list[Any] = [stop] if isinstance(stop, str) else list(stop) if isinstance(stop, list | tuple) else [None]
    if not all(isinstance(s, str) and s for s in stops):
        raise UsageError(f"generate: stop must be a text, or a list of texts, none empty, not {stop!r:.40}")
    return stops


def _check_arguments(temperature: float, top_k: int | None) -> None:
    is_number = isinstance(temperature, int | float | np.number) and not isinstance(temperature, bool)
    if not is_number or not 0 <= temperature < np.inf:
        raise UsageError(f"generate: temperature must be a number of at least 0, not {temperature!r:.40}")
    if top_k is not None:
        check_integer("top_k", top_k, 1)


def _draw(logits: np.ndarray, temperature: float, top_k: int | None, rng: np.random.Generator) -> int:
    """A token drawn by its probability."""
    if temperature == 0:
        return int(logits.argmax())
    if top_k is not None and top_k < len(logits):
        logits = np.where(logits >= np.sort(logits)[-top_k], logits, -np.inf)
    scaled_logits = (logits - logits.max()) / temperature
    probabilities = np.exp(scaled_logits)
    return int(rng.choice(len(logits), p=probabilities / probabilities.sum()))
