"""The process that reads an untrusted LevelDB with its own library: started by `LevelDBReader`, which it answers.

The first line of standard input is JSON: the folder, and limits. Each further line is a request, JSON again. An answer
is the number of its bytes, a byte 0, and what the request asks for; or a byte 1, and the text of an error. The library
maps the database's files and does not check everything that it reads: a damaged one ends this process, no other.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import types
from collections.abc import Iterator
from typing import Any, BinaryIO


def _stub_package() -> None:
    """Register an empty package, so that importing the few modules needed does not import all of prototorch."""
    package = types.ModuleType("prototorch")
    package.__path__ = [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))]
    sys.modules[package.__name__] = package


if __name__ == "__main__":
    _request = json.loads(sys.stdin.buffer.readline())
    sys.path[:] = _request["python_path"]
    _stub_package()

from prototorch.engine.storage.process_limits import limit_process, memory_in_use  # noqa: E402 - found on the path set above

__all__ = ["serve"]

_MAX_ANSWER_BYTES = 8 << 20  # of records that are sent at once, unless one alone has more


def serve(folder: str, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until their end: ``open`` an iterator from a record on, its ``next`` records, the value of
    ``get``; each request names the iterators that have ``ended``."""
    import plyvel

    database = plyvel.DB(folder, create_if_missing=False, max_open_files=200, lru_cache_size=8 << 20)
    _send(answers, b"\0")
    iterators: dict[int, Iterator[tuple[bytes, bytes]]] = {}
    for line in iter(requests.readline, b""):
        try:
            answer = _answer(database, iterators, json.loads(line))
        except Exception as error:  # the library may raise any exception on a damaged file
            answer = _error(error)
        _send(answers, answer)


def _send(answers: BinaryIO, answer: bytes) -> None:
    answers.write(struct.pack("<Q", len(answer)) + answer)
    answers.flush()


def _answer(database: Any, iterators: dict[int, Iterator[tuple[bytes, bytes]]], request: dict[str, Any]) -> bytes:
    for number in request["ended"]:
        iterators.pop(number, None)
    if request["do"] == "open":
        iterators[request["id"]] = _records(database, request["keys_only"], request["skip"])
        return b"\0"
    if request["do"] == "get":
        value = database.get(bytes.fromhex(request["key"]))
        if value is None:
            raise KeyError("a key that is listed is not found")
        return b"\0" + bytes(value)
    parts, size, count = [], 0, 0
    for key, value in iterators[request["id"]]:
        parts += [struct.pack("<II", len(key), len(value)), key, value]
        size, count = size + len(key) + len(value), count + 1
        if count >= request["count"] or size >= _MAX_ANSWER_BYTES:
            break
    return b"\0" + b"".join(parts)


def _records(database: Any, keys_only: bool, skip: int) -> Iterator[tuple[bytes, bytes]]:
    if keys_only:
        for key in database.iterator(include_value=False):
            yield key, b""
        return
    start = None
    if skip:
        for number, key in enumerate(database.iterator(include_value=False)):
            if number == skip:
                start = key
                break
        else:
            return
    yield from database.iterator(start=start)


def _error(error: Exception) -> bytes:
    text = f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:2000]
    return b"\1" + text


def main() -> None:
    """Serve the database that the first line of standard input names; messages of the library are discarded."""
    answers = os.fdopen(os.dup(1), "wb")
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    try:
        import plyvel  # noqa: F401 - found before the limits are set
    except ImportError as error:
        _send(answers, _error(error))
        return
    limit_process({
        "AS": memory_in_use() + _request["address_space"], "FSIZE": _request["file_bytes"], "CORE": 0, "NOFILE": 512,
    })  # fmt: skip
    try:
        serve(_request["folder"], sys.stdin.buffer, answers)
    except Exception as error:
        _send(answers, _error(error))


if __name__ == "__main__":
    main()
    os._exit(0)  # skips the library's cleanup, which a damaged file could affect
