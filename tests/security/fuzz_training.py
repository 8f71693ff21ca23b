"""``python -m tests.security.fuzz_training FIRST COUNT``: train random texts, and report what must not happen.

Runs in a process of its own, in an empty working folder, with limits on memory and on the time of each text. Allowed
are success and errors of this package; reported as a line of JSON each are other exceptions, errors without a message,
texts that take too long, and files that are written, or processes and connections that are started, outside of the
working folder.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

SECONDS = 10.0  # for a text
MEMORY = 500 << 20  # bytes in addition to what the process has when it begins
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
EFFECTS = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.chmod", "os.truncate")
STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect", "os.fork", "pty.spawn")


class Effects:
    """What the process does to the outside: file system effects beyond ``root``, processes, connections."""

    def __init__(self, root: str):
        self.root, self.seen, self.is_active = os.path.realpath(root), [], False
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.is_active:
            return
        if event in STARTS:
            self.seen.append(f"{event} {arguments!r:.200}")
        elif event in EFFECTS or (event == "open" and self._writes(arguments)):
            for path in arguments[:2] if event in ("os.rename", "os.link", "os.symlink") else arguments[:1]:
                if isinstance(path, str | bytes | os.PathLike) and not self._is_inside(os.fsdecode(path)):
                    self.seen.append(f"{event} {os.fsdecode(path)}")

    @staticmethod
    def _writes(arguments: tuple[object, ...]) -> bool:
        flags = arguments[2]
        return isinstance(flags, int) and bool(flags & WRITES)

    def _is_inside(self, path: str) -> bool:
        self.is_active = False
        try:
            is_bytecode = "__pycache__" in path.split(os.sep)  # of a module that is imported for the first time
            return (os.path.realpath(path) + os.sep).startswith(self.root + os.sep) or path == os.devnull or is_bytecode
        finally:
            self.is_active = True


class TooLongError(BaseException):
    """A text took longer than `SECONDS`."""


def _raise_too_long(*_: object) -> None:
    raise TooLongError


def train_texts(first: int, count: int) -> int:
    """Train the texts of the seeds ``first`` and following."""
    import numpy as np

    import prototorch as pt
    from prototorch.cli.main import main
    from prototorch.errors import PrototorchError
    from tests.security.random_texts import INPUTS, TextGenerator

    rng = np.random.default_rng(0)
    shapes = {name: json.loads(shape) for name, shape in INPUTS.items()}
    arrays = {name: rng.integers(0, 3, (12, *shape)).astype(np.float32) for name, shape in shapes.items()}
    np.savez("data.npz", label=np.arange(12) % 3, value=rng.normal(size=12).astype(np.float32), **arrays)
    platform.processor()  # starts a process, once
    effects = Effects(os.getcwd())
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    signal.signal(signal.SIGALRM, _raise_too_long)
    outcomes: Counter[str] = Counter()
    for seed in range(first, first + count):
        text, problem, start = TextGenerator(seed).text(), "", time.perf_counter()
        Path("net.proto").write_text(text)
        effects.seen.clear()
        effects.is_active = True
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if seed % 3:
                    pt.load_model("net.proto").fit(verbose=0, run_dir="run")
                else:
                    main(["run", "net.proto", "--quiet", "--run-dir", f"runs/{seed}"])
            outcomes["trained"] += 1
        except SystemExit as status:
            outcomes[f"exit status {status.code}"] += 1
        except PrototorchError as error:
            outcomes[type(error).__name__] += 1
            problem = "" if str(error).strip() else f"{type(error).__name__} without a message"
        except TooLongError:
            problem = f"took longer than {SECONDS} s"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            effects.is_active = False
        seconds = time.perf_counter() - start
        outcomes["seconds"] = max(outcomes["seconds"], round(seconds, 2))
        problem = problem or "; ".join(effects.seen)
        if problem:
            print(json.dumps({"seed": seed, "problem": problem[-3000:], "text": text}), flush=True)
    print(json.dumps({"outcomes": outcomes}))
    return 0


if __name__ == "__main__":
    sys.exit(train_texts(int(sys.argv[1]), int(sys.argv[2])))
