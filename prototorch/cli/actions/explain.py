"""What `prototorch explain` does."""

from __future__ import annotations

import click

from prototorch.base.terminal import escape_line
from prototorch.cli.json_output import print_json
from prototorch.cli.model_input import add_device_overrides, open_model, print_data_paths, warn_untrained
from prototorch.model.permutation_importance import permutation_importance

_NAME_WIDTH = 30


def run(
    file: str,
    data: str | None,
    overrides: tuple[str, ...],
    repeats: int,
    rows: int,
    seed: int,
    device: str | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """See `prototorch.cli.commands.explain`."""
    model = open_model(file, add_device_overrides(overrides, threads, device))
    warn_untrained(file, "is explained", model)
    if data is None and model.fit_block is not None:
        print_data_paths(model.fit_block.validation or model.fit_block.data)
    importances = permutation_importance(model, data, repeats=repeats, rows=rows, seed=seed)
    if as_json:
        print_json(
            [
                {"column": one.name, "input": one.input, "changes": {k: v.tolist() for k, v in one.changes.items()}}
                for one in importances
            ]
        )
        return
    names = [escape_line(one.name)[:_NAME_WIDTH] for one in importances]
    metrics = [name for name in importances[0].changes if name != "loss"][:2] if importances else []
    width = max(6, *map(len, names)) if names else 6
    click.echo(f"{'column':<{width}}  {'loss':>22}" + "".join(f"  {escape_line(m)[:22]:>22}" for m in metrics))
    for name, one in zip(names, importances, strict=True):
        cells = [f"{one.mean(m):+.4g} +- {one.deviation(m):.2g}" for m in ("loss", *metrics)]
        click.echo(f"{name:<{width}}" + "".join(f"  {cell:>22}" for cell in cells))
