"""What `prototorch generate` does."""

from __future__ import annotations

import click

from prototorch.base.terminal import escape_controls
from prototorch.cli.json_output import print_json
from prototorch.cli.model_input import add_device_overrides, open_model, warn_untrained
from prototorch.errors import UsageError
from prototorch.model.generation import generate_stream


def run(
    file: str,
    prompts: tuple[str, ...],
    length: int,
    temperature: float,
    top_k: int | None,
    seed: int,
    stops: tuple[str, ...],
    device: str | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """See `prototorch.cli.commands.generate`."""
    model = open_model(file, add_device_overrides((), threads, device))
    warn_untrained(file, "generates", model)
    tokenizers = list(model.net.tokenizers().values())
    if not tokenizers:
        raise UsageError(f"{file} reads no texts: it has no tokenizer, as TextVectorization")
    results = []
    for prompt in prompts or ("",):
        begin = prompt if len(model.net.inputs) == 1 else ""
        if not as_json:
            click.echo(escape_controls(begin), nl=False)
        separates = bool(begin) and not begin[-1].isspace() and tokenizers[-1].separates_words
        text = ""
        for _, part in generate_stream(
            model, prompt, length, temperature=temperature, top_k=top_k, seed=seed, stop=stops
        ):
            part = f" {part}" if separates and not text else part
            text += part
            if not as_json:
                click.echo(escape_controls(part), nl=False)
        if not as_json:
            click.echo()
        results.append({"prompt": prompt, "text": text})
    if as_json:
        print_json(results)
