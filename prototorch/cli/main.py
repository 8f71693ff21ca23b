"""`prototorch`: the command that holds the others. A command is a module of `prototorch.cli.commands`."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import TextIO

import click
from click.shell_completion import CompletionItem

import prototorch
from prototorch.base import index
from prototorch.base.early_signals import TerminationError, raising_on_termination
from prototorch.base.terminal import escaped_output
from prototorch.cli.completion import register_shells
from prototorch.cli.installation import installation_warning, is_overwritten, overwritten_message
from prototorch.cli.messages import echo_error
from prototorch.errors import FileError, PrototorchError, ResourceError, UsageError, did_you_mean

_SIGPIPE = 13  # as the shell counts a tool that wrote to a closed pipe; not every system has the signal

_EPILOG = """
\b
Examples:
  prototorch run alexnet                      train a shipped model on its data
  prototorch run my.proto --set fit.epochs=3  train your own, with another setting
  prototorch predict runs/my/model.h5 cat.png use what was saved
  prototorch layers Conv2D                    a layer's manual page

\b
Exit codes: 0 done, 2 wrong usage, 3 a mistake in the model, 4 in the data, 5 a file, 6 the training went wrong,
7 not enough memory, 8 no such device, 130 and 143 stopped by a signal after saving, 141 nobody reads the output.
"""

# Control characters reach the streams, which escape them: click shall not remove what it takes for colours.
_CONTEXT = {"help_option_names": ["-h", "--help"], "color": True}


class _Commands(click.Group):
    """The commands of the index; a command's module is imported when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(index.commands())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        entry = index.commands().get(name)
        return None if entry is None else importlib.import_module(entry.module).command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names of all commands with the beginning of their help, without importing one."""
        width = formatter.width - 6 - max(map(len, self.list_commands(ctx)))
        with formatter.section("Commands"):
            formatter.write_dl(list(_short_helps(width)))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands and options that begin with what has been typed; no command is imported."""
        commands = [CompletionItem(name, help=text) for name, text in _short_helps() if name.startswith(incomplete)]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(self, ctx: click.Context, args: list[str]):
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self.list_commands(ctx):
            raise click.UsageError(f"there is no command {name!r}.{did_you_mean(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


def _short_helps(width: int = 60) -> Iterator[tuple[str, str]]:
    """The names of the commands, each with the beginning of its help in as many characters."""
    for name, entry in sorted(index.commands().items()):
        yield name, click.Command(name, help=entry.facts["help"]).get_short_help_str(width)


@click.group(cls=_Commands, epilog=_EPILOG, context_settings=_CONTEXT)
@click.version_option(getattr(prototorch, "__version__", "unknown"), prog_name="prototorch")
def group() -> None:
    """Deep learning from a text file."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line, and exit. A PrototorchError becomes its message and its exit code, a warning one line; what
    a terminal would obey is shown as escapes (see `prototorch.base.terminal`)."""
    with escaped_output():
        if is_overwritten():
            click.echo(f"prototorch: {overwritten_message()}", err=True)
            sys.exit(FileError.exit_code)
        if warning := installation_warning():
            click.echo(f"warning: {warning}", err=True)
        try:
            code = _run(args)
        except BrokenPipeError:
            _drop_output()
            code = 128 + _SIGPIPE
    sys.exit(code)


def _run(args: Sequence[str] | None) -> int:
    """Run the command line; the exit code."""
    try:
        with raising_on_termination(), warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = _show_warning
            register_shells()
            arguments = list(args) if args is not None else None
            code = group.main(args=arguments, prog_name="prototorch", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return UsageError.exit_code
    except PrototorchError as error:
        echo_error(error)
        return error.exit_code
    except (KeyboardInterrupt, click.exceptions.Abort) as error:  # Ctrl-C outside of training
        is_terminated = isinstance(error, TerminationError) or isinstance(error.__context__, TerminationError)
        _show_error(f"prototorch: stopped{' by SIGTERM' if is_terminated else ''}")
        return 128 + (signal.SIGTERM if is_terminated else signal.SIGINT)
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        _show_error(f"prototorch: {where}{error.strerror or error}")
        return FileError.exit_code
    except MemoryError:
        _show_error("prototorch: there is not enough memory; a smaller batch needs less (summary --batch N)")
        return ResourceError.exit_code


def _show_error(message: str) -> None:
    """A message on standard error."""
    click.echo(message, err=True, color=True)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as one line on standard error, without the place in Python's code."""
    click.echo(f"warning: {' '.join(str(message).split())}", err=True)


def _drop_output() -> None:
    """Nobody reads standard output any more, or it cannot be written: what is left in its buffer goes nowhere."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except (ValueError, AttributeError):  # no such file below it
            continue
