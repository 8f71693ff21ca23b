"""A device for kernels that is the CPU: the same `.cu` texts compiled by g++, threads played one after another.

A kernel that meets at barriers runs with a real thread for each of its threads (`team.c`). Grids and blocks are small
ones of odd sizes, so that the loops over a grid are tried too. Under the address sanitizer a block that meets has all
threads of its launch, and an access beside an array that they share is an error. Under the thread sanitizer all threads
of all blocks are played at once, and what two of them do to the same memory without a barrier in between is an error.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
OPTIONS = ("-std=c++17", "-O0", "-ffp-contract=off", "-fPIC", "-w")
#: "address" or "thread" where the tests run under that sanitizer (sanitizers.py)
SANITIZER = os.environ.get("SHIM_SANITIZER", "")
#: whether a block that meets has all threads of its launch: so many that what they share must have its real size
REAL_BLOCKS = SANITIZER == "address"
if SANITIZER:
    OPTIONS = (*OPTIONS, f"-fsanitize={SANITIZER}", "-g1")
COMPILER = shutil.which("g++")
_TEXTS = [(HERE / name).read_text(encoding="utf-8") for name in ("shim.h", "team.c")]
#: in the names of all that is compiled, so that a folder may be used again
_MADE_BY = hashlib.sha256(repr((_TEXTS, OPTIONS)).encode()).hexdigest()[:8]
#: type -> ctypes
_C = {
    "uint32": ctypes.c_uint32, "int32": ctypes.c_int32, "uint64": ctypes.c_uint64, "int64": ctypes.c_int64,
    "float32": ctypes.c_float, "float64": ctypes.c_double,
}  # fmt: skip
_KERNEL = re.compile(r"(?:KERNEL|__global__ void) (\w+)\(")
_ROW_THREADS = re.compile(r"#define ROW_THREADS (\d+)")
POINTER = 32 + 8


class ShimDevice:
    """What the kernels ask of a device, on NumPy arrays."""

    precision = "fp32"
    deterministic = True

    def __init__(self, folder: str | None = None):
        self.folder = Path(folder or tempfile.mkdtemp(prefix="shim"))
        self.sources: dict[str, str] = {}
        self.libraries: dict[str, list[ctypes.CDLL]] = {}
        self.launched: list[str] = []
        self._space = np.empty(0, np.uint8)

    def load_module(self, source: str) -> str:
        key = hashlib.sha256(source.encode()).hexdigest()[:24] + _MADE_BY
        self.sources[key] = source
        return key

    def _compile(self, *arguments: str) -> None:
        done = subprocess.run([COMPILER, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]

    def _head(self) -> Path:
        """The common head, compiled once: half of the time otherwise."""
        head = self.folder / f"shim{_MADE_BY}.h"
        if not head.exists():
            shutil.copy(HERE / "shim.h", head)
            self._compile(*OPTIONS, "-x", "c++-header", str(head), "-o", str(head) + ".gch")
        return head

    def _team(self) -> ctypes.CDLL:
        made = self.folder / f"team{_MADE_BY}.so"
        if not made.exists():
            self._compile("-x", "c", "-O2", "-fPIC", "-pthread", "-shared", str(HERE / "team.c"), "-o", str(made))
        return ctypes.CDLL(str(made))

    def _library(self, key: str, copies: int = 1) -> list[ctypes.CDLL]:
        """The kernels of a text. Each copy has what is shared by the threads of a block for itself."""
        loaded = self.libraries.setdefault(key, [])
        file, made = self.folder / f"{key}.cpp", self.folder / f"{key}.so"
        if not made.exists():
            file.write_text(_with_entries(self.sources[key]), encoding="utf-8")
            self._compile(
                *OPTIONS, "-shared", "-Wl,-Bsymbolic", "-include", str(self._head()), str(file), "-o", str(made)
            )
        for at in range(len(loaded), copies):
            copy = made.with_suffix(f".{at}.so") if at else made
            if not copy.exists():  # one that is loaded already must stay as it is
                shutil.copy(made, copy)
            loaded.append(ctypes.CDLL(str(copy)))
        return loaded[:copies]

    def launch(self, module: str, name: str, grid: int, block: int, args) -> None:
        self.launched.append(name)
        text = self.sources[module]
        shuffles = "__shfl" in text
        meets = shuffles or "__syncthreads" in text
        # a block that meets is a power of two of threads; one of few is played as it is
        threads, blocks = (block if block <= 16 else 8) if meets else 3, min(grid, 2)
        if shuffles:  # whole warps, and as many as a row has
            of_row = _ROW_THREADS.search(text)
            threads = min(block, max(64, int(of_row[1]) if of_row else 0))
        if REAL_BLOCKS and meets:
            threads = block
        at_once = SANITIZER == "thread"
        if at_once:  # every kernel is right for any grid: three blocks, or a number of threads that divides no size
            threads, blocks = (threads, 3) if meets else (11, 2)
        libraries = self._library(module, blocks if at_once else 1)
        values = [self._argument(a) for a in args]
        self._check(libraries[0], name, args)
        given = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        team = self._team()
        if not meets and not at_once:
            team.team_alone(blocks, threads, libraries[0][f"play_{name}"], libraries[0].shim_set, given)
            return
        kernels = (ctypes.c_void_p * len(libraries))(*(_address(lib[f"play_{name}"]) for lib in libraries))
        setters = (ctypes.c_void_p * len(libraries))(*(_address(lib.shim_set) for lib in libraries))
        wrong = ctypes.create_string_buffer(200)
        for first in range(0, blocks, len(libraries)):
            team.team_play(first, len(libraries), blocks, threads, kernels, setters, given, wrong)
            assert not wrong.value, f"{name}: {wrong.value.decode()}"
        if at_once:
            reported(name, self.folder)

    @staticmethod
    def _check(library: ctypes.CDLL, name: str, args) -> None:
        """That arguments have the sizes and kinds of the kernel's parameters."""
        kinds = ctypes.create_string_buffer(256)
        count = library[f"kinds_{name}"](kinds)
        taken = kinds.raw[:count]
        assert len(taken) == len(args), f"{name} takes {len(taken)} arguments, not {len(args)}"
        for number, (kind, given) in enumerate(zip(taken, args, strict=True)):
            if kind == POINTER:
                fits = isinstance(given, np.ndarray) or given.dtype == np.uint64
            else:
                fits = not isinstance(given, np.ndarray) and kind == given.itemsize + 16 * (given.dtype.kind == "f")
            assert fits, f"{name}: argument {number} is {type(given).__name__}, which the kernel does not take"

    def _argument(self, value):
        if isinstance(value, np.ndarray):
            return ctypes.c_void_p(value.ctypes.data)
        return _C[value.dtype.name](value.item())

    def pointer(self, array) -> int:
        return array.ctypes.data

    def upload(self, array):
        return array.copy()

    def empty(self, shape, dtype):
        return np.zeros(shape, dtype)

    def reserve(self, nbytes: int) -> None:
        if nbytes > len(self._space):
            raw = np.full(nbytes + 256, 0xFF, np.uint8)
            start = -raw.ctypes.data % 256
            self._space = raw[start : start + nbytes]

    def workspace(self):
        return self._space


def _with_entries(text: str) -> str:
    """A text with a way to call each kernel, on the line that it ends in."""
    made = text
    for found in reversed(list(_KERNEL.finditer(text))):
        at, depth = text.index("{", found.end()), 1
        while depth:
            at += 1
            depth += {"{": 1, "}": -1}.get(text[at], 0)
        made = f"{made[: at + 1]} SHIM_ENTRY({found[1]}){made[at + 1 :]}"
    return made


def _address(function) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def reported(name: str, folder: Path) -> None:
    """Fail where the thread sanitizer has written a report since the last call."""
    told = Path(f"{os.environ['SHIM_REPORTS']}.{os.getpid()}")
    text = told.read_text(encoding="utf-8") if told.exists() else ""
    new, _read[:] = text[_read[0] :], [len(text)]
    new = re.sub(r"<null> <null> \(([\w.]+)\+(0x\w+)\)", lambda m: _line(folder / m[1], m[2]), new)
    assert not new, f"{name}: threads meet in memory without a barrier between them\n{new}"


def _line(library: Path, address: str) -> str:
    """The function and the line at an address: the sanitizer finds none in what is loaded late."""
    command = ["addr2line", "-f", "-C", "-e", str(library), address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return " ".join(done.stdout.split())


_read = [0]
