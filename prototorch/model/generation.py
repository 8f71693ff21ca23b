"""Generation of texts, token by token, with a model that reads texts and predicts the next token."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from prototorch.data.text_source import TextInput
from prototorch.errors import UsageError
from prototorch.model.model import Model
from prototorch.model.prediction import output_kinds
from prototorch.train.argument_checks import check_integer
from prototorch.train.data_signature import text_inputs

__all__ = ["generate", "generate_ids"]

MAX_OPEN_WINDOW = 1024  # ids that a net of any length is given
CAUSAL_TOLERANCE = 1e-3  # of logits, which the two runs compute by the same kernels


def generate(
    model: Model,
    prompt: str = "",
    max_new_tokens: int = 200,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    seed: int = 0,
) -> str:
    """The text that a model generates after a prompt, without it; of a model with two inputs the text for it.

    A model of one input has learned windows of a text (``data { text: windows }``): its output [time, tokens] predicts
    after each step the next token. One of two inputs has learned pairs: it reads the prompt, and what it has generated
    so far. Each token is computed from the last ones that fit the input.

    Args:
        max_new_tokens: the largest number of tokens; the tokenizer's ``end_token`` ends a text before.
        temperature: the logits are divided by it before a token is drawn; 0 takes the most probable token.
        top_k: the number of the most probable tokens that are drawn from; None: all.
        seed: of the random numbers: with the same seed it is the same text.

    Raises UsageError for a model that predicts no next token, and for arguments out of range.
    """
    ids = list(generate_ids(model, prompt, max_new_tokens, temperature=temperature, top_k=top_k, seed=seed))
    return list(model.net.tokenizers().values())[-1].decode(ids)


def generate_ids(
    model: Model,
    prompt: str = "",
    max_new_tokens: int = 200,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    seed: int = 0,
) -> Iterator[int]:
    """The ids of `generate`, one after the other; arguments and errors are those of `generate`."""
    _check_arguments(prompt, temperature, top_k)
    limit = check_integer("max_new_tokens", max_new_tokens, 0)
    rng = np.random.Generator(np.random.Philox(check_integer("seed", seed, 0)))
    inputs = text_inputs(model.net)
    if len(inputs) not in (1, 2) or len(inputs) != len(model.net.inputs) or len(model.net.outputs) != 1:
        raise UsageError(
            f"{model.net.name!r} generates no texts: it has {len(model.net.inputs)} inputs, of which {len(inputs)} are "
            f"texts, and {len(model.net.outputs)} outputs; expected one or two, all texts, and one output"
        )
    tokenizer = model.net.tokenizers()[inputs[-1].name]
    end = None if tokenizer.end_token is None else tokenizer.token_id(tokenizer.end_token)
    if len(inputs) == 2:
        ids, source = [tokenizer.edge_ids()[0]], inputs[0].encode([prompt])
    else:
        ids, source = tokenizer.encode_part(prompt), None
        start = None if tokenizer.start_token is None else tokenizer.token_id(tokenizer.start_token)
        ids = ids if ids or start is None else [start]
    if not ids:
        raise UsageError("generate: the prompt has no tokens; give the begin of a text, of at least one token")
    banned = np.array(sorted(tokenizer.special_ids() - {end}), np.int64)
    size = tokenizer.vocabulary_size()
    next_logits = _next_logits(model, inputs[-1], source, size)
    window = inputs[-1].length or MAX_OPEN_WINDOW
    limit = min(limit, window) if source is not None else limit
    for number in range(limit):
        logits = next_logits(ids[-window:], number == 0)[:size]
        logits[banned] = -np.inf
        token = _draw(logits, temperature, top_k, rng)
        if token == end:
            return
        ids.append(token)
        yield token


def _check_arguments(prompt: str, temperature: float, top_k: int | None) -> None:
    if not isinstance(prompt, str):
        raise UsageError(f"generate: prompt must be a string, not {type(prompt).__name__}")
    is_number = isinstance(temperature, int | float | np.number) and not isinstance(temperature, bool)
    if not is_number or not 0 <= temperature < np.inf:
        raise UsageError(f"generate: temperature must be a number of at least 0, not {temperature!r:.40}")
    if top_k is not None:
        check_integer("top_k", top_k, 1)


def _next_logits(
    model: Model, target: TextInput, source: np.ndarray | None, size: int
) -> Callable[[list[int], bool], np.ndarray]:
    """A function of the ids so far that gives the logits of the next one, float64 [tokens]."""
    length = target.length
    is_logits = output_kinds(model).get(model.net.outputs[0]) == "softmax"

    def run(ids: list[int], padding: int) -> np.ndarray:
        steps = length or max(16, 1 << (len(ids) - 1).bit_length())
        window = np.full((1, steps), padding, np.int32)
        window[0, : len(ids)] = ids
        columns = window if source is None else [source, window]
        y = np.asarray(model.predict_on_batch(columns), np.float64)
        if y.ndim != 3 or y.shape[1] != steps or y.shape[2] < size:
            raise UsageError(
                f"{model.net.name!r} generates no texts: its output {model.net.outputs[0]!r} has the shape "
                f"{list(y.shape[1:])}, expected [{steps}, at least {size}]: the logits of the next token at each step"
            )
        return y[0, len(ids) - 1]

    def next_logits(ids: list[int], is_first: bool) -> np.ndarray:
        y = run(ids, 0)
        if is_first and (length is None or len(ids) < length):
            other = run(ids, size - 1)
            if np.abs(other - y).max() > CAUSAL_TOLERANCE * max(1.0, np.abs(y).max()):
                raise UsageError(
                    f"{model.net.name!r} generates no texts: its output at a step depends on the steps after it; write "
                    "MultiHeadAttention { causal: true }, and recurrent layers that go forward"
                )
        if is_logits:
            return y
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(y) if y.min() >= 0 and abs(y.sum() - 1) < 1e-3 else y

    return next_logits


def _draw(logits: np.ndarray, temperature: float, top_k: int | None, rng: np.random.Generator) -> int:
    """A token drawn by its probability."""
    if temperature == 0:
        return int(logits.argmax())
    if top_k is not None and top_k < len(logits):
        logits = np.where(logits >= np.sort(logits)[-top_k], logits, -np.inf)
    scaled_logits = (logits - logits.max()) / temperature
    probabilities = np.exp(scaled_logits)
    return int(rng.choice(len(logits), p=probabilities / probabilities.sum()))
