"""What `prototorch generate` does."""

from __future__ import annotations

import click

from prototorch.base.terminal import escape_controls
from prototorch.cli.json_output import print_json
from prototorch.cli.model_input import add_device_overrides, open_model, warn_untrained
from prototorch.errors import UsageError
from prototorch.model.generation import generate_ids


def run(
    file: str,
    prompts: tuple[str, ...],
    length: int,
    temperature: float,
    top_k: int | None,
    seed: int,
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
        printed_text, ids = begin, list[int]()
        if not as_json:
            click.echo(escape_controls(begin), nl=False)
        for token in generate_ids(model, prompt, length, temperature=temperature, top_k=top_k, seed=seed):
            ids.append(token)
            separator = " " if begin and not begin[-1].isspace() and tokenizers[-1].separates_words else ""
            text = begin + separator + tokenizers[-1].decode(ids)
            if not as_json:
                click.echo(escape_controls(text[len(printed_text) :]), nl=False)
            printed_text = text
        if not as_json:
            click.echo()
        results.append({"prompt": prompt, "text": printed_text[len(begin) :]})
    if as_json:
        print_json(results)
