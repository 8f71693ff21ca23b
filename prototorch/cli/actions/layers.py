"""What `prototorch layers` does."""

from __future__ import annotations

import click

from prototorch.cli.json_output import print_json
from prototorch.model.docs_pages import find_page, list_families
from prototorch.model.editor_schema import language_schema, textmate_grammar
from prototorch.model.load import find_model_file, run_imports


def run(name: str | None, file: str | None, editor: str | None, as_json: bool) -> None:
    """See `prototorch.cli.commands.layers`."""
    if file is not None:
        run_imports(find_model_file(file))
    if editor is not None:
        if name is not None:
            raise click.UsageError("--editor takes no NAME: it is about all there is.")
        print_json(language_schema() if editor == "schema" else textmate_grammar())
        return
    if name is None:
        classes = list_families()
        if as_json:
            print_json({family: [cls.__name__ for cls in members] for family, members in classes.items()})
            return
        for family, members in classes.items():
            click.echo(f"{family}:")
            for cls in members:
                doc = next(iter((cls.__doc__ or "").strip().splitlines()), "")
                click.echo(f"  {cls.__name__:28} {doc}")
            click.echo()
        return
    page = find_page(name)
    if as_json:
        print_json(page.as_dict())
    else:
        click.echo(str(page))
