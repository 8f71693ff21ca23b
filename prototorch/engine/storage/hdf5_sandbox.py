"""The sandboxed process that reads a foreign HDF5 file: started by `foreign_hdf5`, it reads one file and exits.

The request is JSON on standard input. The answer on standard output is the length of a JSON head, the head, then the
arrays' bytes; the reason of a refusal goes to standard error. Before the HDF5 library reads the file, the process drops
its privileges: it cannot open another file, write to one or start a process, and its memory and time are limited.
"""

from __future__ import annotations

import io
import json
import os
import sys
import types
from typing import Any, BinaryIO


def _stub_package() -> None:
    """Register an empty package, so that importing the few modules needed does not import all of prototorch."""
    package = types.ModuleType("prototorch")
    package.__path__ = [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))]
    sys.modules[package.__name__] = package


if __name__ == "__main__":
    _request = json.loads(sys.stdin.buffer.read())
    sys.path[:] = _request["python_path"]
    _stub_package()

import h5py  # noqa: E402 - found on the path set above

from prototorch.engine.storage.hdf5_attributes import read_attributes  # noqa: E402
from prototorch.engine.storage.hdf5_validator import HDF5Validator, UnsafeFileError, iter_bytes  # noqa: E402
from prototorch.engine.storage.process_limits import limit_process, memory_in_use  # noqa: E402

__all__ = ["serve"]

EXIT_REFUSED = 3  # exit status; the reason is on standard error
_ADDRESS_SPACE_SLACK = 192 << 20  # bytes of address space in addition to twice the budget


def serve(request: dict[str, Any], answer: BinaryIO, refusal: BinaryIO) -> int:
    """Read one file as ``request`` describes; returns the exit status.

    request: ``path``; ``part``, None or the start and the size in bytes of the HDF5 file within it; ``allow_opaque``,
    whether elements of two bytes of no type and single texts are accepted; ``budget``, the limit on the bytes of all
    arrays; ``names``,
    or None for all; ``attributes``, whether to send them; ``arrays``, whether to send the arrays' bytes; ``seconds``,
    the limit on processor time.
    """
    try:
        file = io.FileIO(request["path"], "rb")
        _drop_privileges(request["budget"], request["seconds"])
        size = os.fstat(file.fileno()).st_size
        if request.get("part"):
            start, size = request["part"]
            file = _FilePart(file, start, size)  # type: ignore[assignment]
        with h5py.File(file, "r") as tree:
            allow_opaque = bool(request.get("allow_opaque"))
            validator = HDF5Validator(tree, size, request["budget"], request["names"], allow_opaque)
            head = json.dumps(
                {
                    "arrays": [[f.path, f.dtype, f.shape, f.offset] for f in validator.datasets],
                    "attributes": read_attributes(validator.objects) if request["attributes"] else {},
                }
            ).encode()
            answer.write(len(head).to_bytes(8, "little") + head)
            if request["arrays"]:
                for dataset in validator.datasets:
                    for block in iter_bytes(dataset, file):
                        answer.write(block)
            answer.flush()
    except UnsafeFileError as error:
        return _write_refusal(refusal, str(error))
    except MemoryError:
        return _write_refusal(refusal, "it needs more memory than the limit for such a file")
    except BrokenPipeError:
        return 1
    except Exception as error:  # the library may raise any exception on a damaged file
        return _write_refusal(refusal, f"{type(error).__name__}: {error}")
    return 0


class _FilePart(io.RawIOBase):
    """Some bytes of a file as a file of their own, read-only."""

    def __init__(self, file: io.FileIO, start: int, size: int):
        self.file, self.start, self.size, self.position = file, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.position = max(0, offset + (0, self.position, self.size)[whence])
        return self.position

    def tell(self) -> int:
        return self.position

    def readinto(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.file.seek(self.start + self.position)
        count = self.file.readinto(view[: max(0, min(len(view), self.size - self.position))]) or 0
        self.position += count
        return count


def _write_refusal(refusal: BinaryIO, reason: str) -> int:
    refusal.write(reason.encode("utf-8", "replace")[:2000])
    refusal.flush()
    return EXIT_REFUSED


def _drop_privileges(budget: int, seconds: int) -> None:
    space = memory_in_use() + 2 * min(budget, 1 << 50) + _ADDRESS_SPACE_SLACK
    limit_process({"AS": space, "CPU": seconds, "FSIZE": 0, "CORE": 0, "NPROC": 0, "NOFILE": 0})


def main() -> int:
    """Serve the request on standard input; the library's own messages are discarded."""
    answer, refusal = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(2), "wb")
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    return serve(_request, answer, refusal)


if __name__ == "__main__":
    _status = main()
    os._exit(_status)  # skips the library's cleanup, which a damaged file could affect
