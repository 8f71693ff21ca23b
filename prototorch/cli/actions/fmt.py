"""What `prototorch fmt` does."""

from __future__ import annotations

import os
import sys

import click

from prototorch.base.terminal import escape_line
from prototorch.cli.messages import echo_error
from prototorch.engine.storage.atomic_write import write_bytes
from prototorch.errors import FileError, PrototorchError, UsageError
from prototorch.graph.text_upgrade import upgrade_document
from prototorch.model.load import check_text_file
from prototorch.text import limits
from prototorch.text.brace_style import to_braces
from prototorch.text.call_style import to_calls
from prototorch.text.diagnostics import Report
from prototorch.text.dialects import find_dialect
from prototorch.text.reader import decode_utf8, parse, read_file
from prototorch.text.writer import format_document

STDIN = "-"
_STYLES = {"call": to_calls, "brace": to_braces}


def run(files: tuple[str, ...], check: bool, upgrade: bool, stdout: bool, style: str) -> int:
    """See `prototorch.cli.commands.fmt`."""
    codes = [0]
    for file in files:
        try:
            codes.append(_format_file(file, check, upgrade, stdout, style))
        except PrototorchError as error:
            codes.append(error.exit_code)
            echo_error(error)
    return max(codes)


def _format_file(file: str, check: bool, upgrade: bool, stdout: bool, style: str) -> int:
    """1 for a file that is not in the canonical layout, if that is checked; else 0. Raises TextError, FileError."""
    old = _read_stdin() if file == STDIN else read_file(check_text_file(file))
    is_protobuf = find_dialect(old) is not None
    document = parse(old, None if file == STDIN else file, trivia=True, is_protobuf=is_protobuf)
    if upgrade:
        if is_protobuf:
            raise UsageError(f"{file}: is a text of Caffe, whose meaning has not changed; --upgrade is for model texts")
        document = upgrade_document(document)
    if style in _STYLES and not is_protobuf:  # a text of Caffe has no calls
        document = _STYLES[style](document, None if file == STDIN else os.path.dirname(file) or ".")
    new = format_document(document)
    if (
        parse(new, is_protobuf=is_protobuf) != document
    ):  # never seen: a text is not worth losing to a defect of the writer
        raise FileError(f"{file}: left as it is, since its canonical text would not mean the same: please report this")
    if (stdout or file == STDIN) and not check:
        click.echo(new, nl=False)
    elif new != old:
        if not check:
            write_bytes(os.path.realpath(file), new.encode())
        click.echo(f"{escape_line(file)}: {'not in the canonical layout' if check else 'written'}", err=True)
        return int(check)
    return 0


def _read_stdin() -> str:
    report = Report()
    text = decode_utf8(sys.stdin.buffer.read(limits.MAX_FILE_BYTES + 1), "<stdin>", report)
    report.raise_if_any()
    assert text is not None
    return text
