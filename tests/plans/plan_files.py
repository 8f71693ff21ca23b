"""The plans of all shipped models, kept as text in a folder for each level of kernels.

    python -m tests.plans                    writes all of them anew
    python -m tests.plans lenet alexnet      only these

A change of a plan then shows as a difference in the repository, to be looked at and committed with what caused it.

Which of two native kernels is the faster depends on the processor's vectors. So that the plans are the same everywhere
they are made in a process of their own that takes vectors of 256 bits; machines with shorter ones do not compare them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import prototorch as pt
from prototorch.base.package_files import shipped_models
from prototorch.engine.backends.cpu import LEVELS, cpu, native
from prototorch.graph.plan_printer import describe_plan
from prototorch.runtime.variables import Variables
from prototorch.train.plan_cache import PlanCache
from prototorch.train.step_inputs import TRAIN
from prototorch.train.summary import step_specs

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
BATCH = 2
VECTOR_BITS = 256
#: the plain level has no kernels, and so no plans of its own
KEPT = tuple(level for level in LEVELS if level != "plain")


def here() -> tuple[str, ...]:
    """The levels whose plans this machine can make."""
    if native.unavailable_reason() is not None:
        return tuple(level for level in KEPT if level != "native")
    code = "from prototorch.engine.backends.cpu.native.cpu_features import vector_bits; print(vector_bits())"
    wide = int(_run("-c", code)) == VECTOR_BITS
    return tuple(level for level in KEPT if wide or level != "native")


def path(level: str, name: str) -> Path:
    """Where the plan of a model is kept."""
    return FOLDER / level / f"{name}.txt"


def texts(level: str, names: Iterable[str]) -> dict[str, str]:
    """The plans of these models as they are now."""
    return json.loads(_run(str(FOLDER / "plan_files.py"), level, *names))


def main(names: list[str]) -> None:
    """Write the plans anew, and drop those of models that are gone."""
    for level in here():
        (FOLDER / level).mkdir(exist_ok=True)
        for name, text in texts(level, names or shipped_models()).items():
            path(level, name).write_text(text, encoding="utf-8")
        for old in (FOLDER / level).glob("*.txt"):
            if old.stem not in shipped_models():
                old.unlink()


def _run(*args: str) -> str:
    """What Python prints, in a process with these vectors."""
    env = {**os.environ, "PROTOTORCH_VECTOR_BITS": str(VECTOR_BITS), "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *args], env=env, capture_output=True, text=True, check=True).stdout


def _text(level: str, name: str) -> str:
    """The plan of a model's training step, without where each buffer begins. Nothing is run."""
    model = pt.load_model(name)
    program = PlanCache(model.net, Variables(), cpu(level), model.compile_block)
    plan = program.plan(TRAIN, step_specs(model.net, BATCH), create=False)
    found = describe_plan(plan, program.backend, f"{name}: training step, batch {BATCH}, level {level}")
    return "".join(f"{line}\n" for line in found.lines(offsets=False))


if __name__ == "__main__":
    print(json.dumps({name: _text(sys.argv[1], name) for name in sys.argv[2:]}))
