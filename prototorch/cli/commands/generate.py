"""`prototorch generate`: a text from a saved model that predicts the next token."""

from __future__ import annotations

import click

from prototorch.base.terminal import escape_controls
from prototorch.cli.options import (
    add_device_overrides,
    device_option,
    json_option,
    model_argument,
    open_model,
    print_json,
    threads_option,
    warn_untrained,
)
from prototorch.errors import UsageError
from prototorch.model.generation import generate_ids


@click.command()
@model_argument
@click.option("--prompt", "prompts", multiple=True, metavar="TEXT",
              help="The begin of the text, or the text that a model of pairs reads. May be repeated.")  # fmt: skip
@click.option("--length", type=click.IntRange(min=0, max=1 << 20), default=200, show_default=True,
              help="The largest number of new tokens.")  # fmt: skip
@click.option("--temperature", type=click.FloatRange(min=0), default=1.0, show_default=True,
              help="The logits are divided by it; 0 takes the most probable token.")  # fmt: skip
@click.option(
    "--top-k", type=click.IntRange(min=1), help="Draw from this many tokens, the most probable. Default: all."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the random numbers.")
@device_option
@threads_option
@json_option
def command(file: str, prompts: tuple[str, ...], length: int, temperature: float, top_k: int | None, seed: int,
            device: str | None, threads: int | None, as_json: bool) -> None:  # fmt: skip
    """Write a text with the model FILE, which has learned what follows in texts, or pairs of texts.

    A model of one input goes on from the prompt, which is printed too; one of two inputs writes a text for it.

    \b
    Examples:
      prototorch generate runs/gpt/model.h5 --prompt "The " --temperature 0.8 --top-k 20
      prototorch generate runs/seq2seq/model.h5 --prompt 1906 --temperature 0
    """
    model = open_model(file, add_device_overrides((), threads, device))
    warn_untrained(file, "generates", model)
    tokenizers = list(model.net.tokenizers().values())
    if not tokenizers:
        raise UsageError(f"{file} reads no texts: it has no tokenizer, as TextVectorization")
    results = []
    for prompt in prompts or ("",):
        begin = prompt if len(model.net.inputs) == 1 else ""
        shown, ids = begin, list[int]()
        if not as_json:
            click.echo(escape_controls(begin), nl=False)
        for token in generate_ids(model, prompt, length, temperature=temperature, top_k=top_k, seed=seed):
            ids.append(token)
            separator = " " if begin and not begin[-1].isspace() and tokenizers[-1].separates_words else ""
            text = begin + separator + tokenizers[-1].decode(ids)
            if not as_json:
                click.echo(escape_controls(text[len(shown) :]), nl=False)
            shown = text
        if not as_json:
            click.echo()
        results.append({"prompt": prompt, "text": shown[len(begin) :]})
    if as_json:
        print_json(results)
