"""The net that a solver names: a file that may be any, of which errors quote nothing unless it is a net."""

from __future__ import annotations

import os

from prototorch.caffe.text.caffe_errors import fail_at
from prototorch.caffe.text.detect_caffe import find_caffe_kind
from prototorch.caffe.text.message import Message
from prototorch.caffe.text.reader import read_message
from prototorch.caffe.text.upgrade import upgrade_net
from prototorch.data.safe_io import read_file
from prototorch.errors import DataError
from prototorch.text.limits import MAX_FILE_BYTES
from prototorch.text.source import Span

__all__ = ["read_named_net"]


def read_named_net(path: str | os.PathLike[str], name: str, span: Span | None) -> Message:
    """The NetParameter, in its newest form, of a file that a text names.

    name, span: as the text names it, and where. Raises TextError there for a file that is not regular, cannot be read
    or is no net of Caffe; for the mistakes of a net in the net.
    """
    try:
        text = bytes(read_file(path, MAX_FILE_BYTES)).decode("utf-8-sig")
    except DataError as error:
        fail_at(f"the net {name!r}: {error}.", span)
    except UnicodeDecodeError:
        fail_at(f"the net {name!r} is no text.", span)
    lines = (line.strip() for line in text.splitlines())
    if find_caffe_kind(text) != "net" and any(line and not line.startswith("#") for line in lines):
        fail_at(f"the file {name!r} is no net of Caffe: it has no layer {{ }} or layers {{ }}.", span)
    return upgrade_net(read_message(text, "NetParameter", os.fspath(path)))
