"""What starting costs: the modules that typical commands import. Modules are counted, for times depend on the machine.

A budget is what a command imports now with a little room. A command that passes its budget imports what it does not
use: find the import with ``python -X importtime``.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import prototorch as pt

ROOT = Path(__file__).resolve().parent.parent
#: packages that no command on a declared net needs: PyTorch's face, the wings, functions of tensors
WINGS = (
    "autograd",
    "backends",
    "caffe",
    "compiler",
    "eager.functions",
    "eager.array_api",
    "func",
    "interop",
    "linalg",
    "nn",
    "optim",
    "special",
    "static",
    "tokenization",
    "utils",
)
#: third packages that some commands need, by the command line's own floor
HEAVY = {"PIL", "cupy", "h5py", "lark", "llvmlite", "numpy", "rich", "torch"}
CODE = """
import contextlib, io, sys
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    {statement}
print(*(name for name in sys.modules))
"""
LOAD = "import prototorch; prototorch.load_model('lenet')"
TENSOR = "import prototorch; prototorch.tensor([1.0])"
FIRST_STEP = """
    import numpy, prototorch
    model = prototorch.load_model("lenet")
    model.train_on_batch(numpy.zeros((4, 1, 28, 28), "float32"), numpy.zeros(4, "int64"))
"""


def _modules(statement: str) -> set[str]:
    """The full names of all modules that a fresh interpreter has imported after a statement."""
    code = CODE.format(statement=statement.strip())
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stdout.split())


def _command(*arguments: str) -> str:
    return f"from prototorch.cli.main import main; main({list(arguments)!r})"


@pytest.mark.parametrize(
    ("statement", "budget", "third"),
    [
        pytest.param(_command("--help"), 16, set(), id="help"),
        pytest.param(_command("run", "--help"), 24, set(), id="help of a command"),
        pytest.param(_command("run", "--no-such-option"), 24, set(), id="wrong option"),
        pytest.param(_command("devices"), 118, {"numpy", "llvmlite"}, id="devices"),
        pytest.param(_command("check", "lenet"), 454, {"numpy", "lark", "llvmlite", "PIL"}, id="check"),
        pytest.param(_command("summary", "lenet"), 452, {"numpy", "lark", "llvmlite", "PIL"}, id="summary"),
        pytest.param(LOAD, 333, {"numpy", "lark", "PIL"}, id="load_model"),
        pytest.param(TENSOR, 175, {"numpy", "llvmlite"}, id="tensor"),
    ],
)
def test_a_command_imports_what_it_uses(statement, budget, third):
    modules = _modules(statement)
    own = sorted(name for name in modules if name.partition(".")[0] == "prototorch")
    assert len(own) <= budget, f"{len(own)} modules of the package: {' '.join(own)}"
    assert HEAVY & modules <= third


@pytest.mark.parametrize(
    "statement",
    [LOAD, _command("check", "lenet"), _command("summary", "lenet"), FIRST_STEP],
    ids=["load_model", "check", "summary", "first step"],
)
def test_a_declared_net_imports_no_wing(statement):
    modules = _modules(statement)
    assert "prototorch.graph.net" in modules
    assert [w for w in WINGS if f"prototorch.{w}" in modules] == []


def test_weights_of_our_own_files_are_read_without_a_wing(tmp_path):
    path = tmp_path / "w.h5"
    pt.load_model("two_layer").save(path)
    modules = _modules(f"import prototorch; prototorch.load_model('two_layer').load_weights({str(path)!r})")
    assert "prototorch.model.loading.assign.checked" in modules
    assert [w for w in WINGS if f"prototorch.{w}" in modules] == []


def test_opening_a_net_imports_nothing_that_runs_it():
    """The passes, the trainer and the loop belong to the first step, metrics and losses to the nets that name them."""
    modules = _modules(LOAD)
    needless = (
        "graph.passes",
        "train.trainer",
        "train.plan_cache",
        "train.progress",
        "metrics.auc",
        "losses.regression",
        "layers.lstm",
    )
    assert [name for name in needless if f"prototorch.{name}" in modules] == []


def test_a_first_step_asks_for_no_masked_arrays():
    """A masked array brings numpy.ma, which takes 15 ms to import, along."""
    assert "numpy.ma" not in _modules(FIRST_STEP)


def test_a_step_whose_kernels_are_compiled_emits_no_code():
    code = """
        from prototorch.engine.backends.cpu.native.kernel_api import KernelCode
        emit, names = KernelCode.emit, []
        KernelCode.emit = lambda self, name: (names.append(name), emit(self, name))[1]
        {}
        print(*names, sep=",", file=sys.stderr)
    """.format(FIRST_STEP.replace("\n    ", "\n        ").strip())
    code = textwrap.dedent(code)
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == ""


def test_an_unknown_name_asks_no_member_before_every_type_of_the_field_has_refused_it():
    """The word accuracy is a name of its own: the family of metrics, which is asked first, suggests nothing else."""
    code = "from prototorch.train.config import Compile; import sys; Compile(loss='mse', metrics='accuracy'); "
    modules = _modules(code)
    assert [name for name in modules if name.startswith("prototorch.metrics.") and name.endswith("auc")] == []


def test_modules_of_ops_are_no_misspelt_ops():
    """``from prototorch.ops import facts`` asks the package for a name before it imports the module of that name."""
    with pytest.raises(AttributeError, match=r"prototorch.ops.facts is a module, not an op"):
        _ = pt.ops.facts
    with pytest.raises(AttributeError, match=r"package prototorch.train has not been imported"):
        pt.__getattr__("train")
