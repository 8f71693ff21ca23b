"""`prototorch generate`: a text from a saved model that predicts the next token."""

from __future__ import annotations

import click

from prototorch.cli.deferred import deferred_command
from prototorch.cli.options import (
    device_option,
    json_option,
    model_argument,
    threads_option,
)


@deferred_command("prototorch.cli.actions.generate")
@model_argument
@click.option(
    "--prompt",
    "prompts",
    multiple=True,
    metavar="TEXT",
    help="The begin of the text, or the text that a model of pairs reads. May be repeated.",
)
@click.option(
    "--length",
    type=click.IntRange(min=0, max=1 << 20),
    default=200,
    show_default=True,
    help="The largest number of new tokens.",
)
@click.option(
    "--temperature",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="The logits are divided by it; 0 takes the most probable token.",
)
@click.option(
    "--top-k", type=click.IntRange(min=1), help="Draw from this many tokens, the most probable. Default: all."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the random numbers.")
@click.option("--stop", "stops", multiple=True, metavar="TEXT", help="End before this text. May be repeated.")
@device_option
@threads_option
@json_option
def command() -> None:
    """Write a text with the model FILE, which has learned what follows in texts, or pairs of texts.

    A model of one input goes on from the prompt, which is printed too; one of two inputs writes a text for it.

    \b
    Examples:
      prototorch generate runs/gpt/model.h5 --prompt "The " --temperature 0.8 --top-k 20
      prototorch generate runs/seq2seq/model.h5 --prompt 1906 --temperature 0
    """
