"""The plans of all shipped models, kept as text in a folder for each level of kernels.

    python -m tests.plans                    writes all of them anew
    python -m tests.plans lenet alexnet      only these

A change of a plan then shows as a difference in the repository, to be looked at and committed with what caused it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import prototorch as pt
from prototorch.backends.cpu import LEVELS, cpu, native
from prototorch.engine.variables import Variables
from prototorch.graph.describe import describe
from prototorch.resources import shipped_models
from prototorch.train.program import TRAIN, Program
from prototorch.train.summary import step_specs

FOLDER = Path(__file__).parent
BATCH = 2
#: the plain level has no kernels, and so no plans of its own
KEPT = tuple(level for level in LEVELS if level != "plain")
#: those that this machine can make
HERE = tuple(level for level in KEPT if level != "native" or native.missing() is None)


def path(level: str, name: str) -> Path:
    """Where the plan of a model is kept."""
    return FOLDER / level / f"{name}.txt"


def text(level: str, name: str) -> str:
    """The plan of a model's training step as it is now, without where each buffer begins. Nothing is run."""
    model = pt.load_model(name)
    program = Program(model.net, Variables(), cpu(level), model.compile_block)
    plan = program.plan(TRAIN, step_specs(model.net, BATCH), create=False)
    found = describe(plan, program.backend, f"{name}: training step, batch {BATCH}, level {level}")
    return "".join(f"{line}\n" for line in found.lines(offsets=False))


def main(names: list[str]) -> None:
    """Write the plans anew, and drop those of models that are gone."""
    for level in HERE:
        (FOLDER / level).mkdir(exist_ok=True)
        for name in names or shipped_models():
            path(level, name).write_text(text(level, name), encoding="utf-8")
        for old in (FOLDER / level).glob("*.txt"):
            if old.stem not in shipped_models():
                old.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
