"""The process that reads an HDF5 file from elsewhere: started by `foreign`, it reads one file and ends.

The request comes as JSON on standard input, the answer goes to standard output (the length of a JSON head, the head,
then the arrays' bytes), a refusal to standard error. Before the HDF5 library sees the file, the process gives up what
it could do harm with: no further file can be opened, nothing be written to one, no process started; memory and time
are limited.
"""

from __future__ import annotations

import io
import json
import os
import sys
import types
from typing import Any, BinaryIO


def _stub_packages() -> None:
    """Let the few modules needed be imported without all of prototorch, which their package would load."""
    here = os.path.dirname(os.path.abspath(__file__))
    for name, folder in (("prototorch", os.path.dirname(here)), ("prototorch.storage", here)):
        module = types.ModuleType(name)
        module.__path__ = [folder]
        sys.modules[name] = module


if __name__ == "__main__":
    _request = json.loads(sys.stdin.buffer.read())
    sys.path[:] = _request["python_path"]
    _stub_packages()

import h5py  # noqa: E402 - these are found on the path given above

from prototorch.storage.hdf5_attributes import read_attributes  # noqa: E402
from prototorch.storage.hdf5_validator import HDF5Validator, UnsafeFileError, iter_bytes  # noqa: E402

if sys.platform != "win32":
    import resource

EXIT_REFUSED = 3  # exit status: the reason is on standard error
_ADDRESS_SPACE_SLACK = 192 << 20  # bytes of address space beyond twice the budget


def serve(request: dict[str, Any], answer: BinaryIO, refusal: BinaryIO) -> int:
    """Read one file by ``request``; give back the exit status.

    request: ``path``; ``budget``, the bytes of all arrays together; ``names`` or None for all; ``attributes``, whether
    these are wanted; ``arrays``, whether the arrays' bytes are; ``seconds`` of processor time.
    """
    try:
        file = io.FileIO(request["path"], "rb")
        _drop_privileges(request["budget"], request["seconds"])
        with h5py.File(file, "r") as tree:
            size = os.fstat(file.fileno()).st_size
            survey = HDF5Validator(tree, size, request["budget"], request["names"])
            head = json.dumps(
                {
                    "arrays": [[f.path, f.dtype, f.shape, f.offset] for f in survey.datasets],
                    "attributes": read_attributes(survey.objects) if request["attributes"] else {},
                }
            ).encode()
            answer.write(len(head).to_bytes(8, "little") + head)
            if request["arrays"]:
                for found in survey.datasets:
                    for block in iter_bytes(found, file):
                        answer.write(block)
            answer.flush()
    except UnsafeFileError as error:
        return _write_refusal(refusal, str(error))
    except MemoryError:
        return _write_refusal(refusal, "more memory is needed than such a file may take")
    except BrokenPipeError:
        return 1
    except Exception as error:  # whatever the library says of a damaged file
        return _write_refusal(refusal, f"{type(error).__name__}: {error}")
    return 0


def _write_refusal(refusal: BinaryIO, reason: str) -> int:
    refusal.write(reason.encode("utf-8", "replace")[:2000])
    refusal.flush()
    return EXIT_REFUSED


def _drop_privileges(budget: int, seconds: int) -> None:
    if sys.platform == "win32":
        return
    try:
        with open("/proc/self/statm", "rb") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        used = 1 << 30
    space = used + 2 * min(budget, 1 << 50) + _ADDRESS_SPACE_SLACK
    for name, most in (("AS", space), ("CPU", seconds), ("FSIZE", 0), ("CORE", 0), ("NPROC", 0), ("NOFILE", 0)):
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None:
            continue
        hard = resource.getrlimit(kind)[1]
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (wanted, wanted))
        except (OSError, ValueError):
            continue  # a system that does not know this limit


def main() -> int:
    """Serve the request of standard input, keeping the library's own messages away from standard error."""
    answer, refusal = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(2), "wb")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    return serve(_request, answer, refusal)


if __name__ == "__main__":
    _status = main()
    os._exit(_status)  # nothing of a damaged file's state is torn down
