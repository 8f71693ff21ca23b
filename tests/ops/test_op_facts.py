"""Facts about an op stand at the op: no other module knows ops by name, and a new op needs one file."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import prototorch
from prototorch import ops
from prototorch.ops.core import Op
from prototorch.ops.facts import BATCHED, INDEPENDENT, UNIFORM
from prototorch.ops.operators import OPS
from prototorch.spec import Spec

PACKAGE = Path(prototorch.__file__).parent
#: kernels implement ops, and register themselves by the op's name
#: modules in which names of ops stand: kernels, functions of tensors of the same names, PyTorch's
KERNELS = ("engine/backends/cpu/numpy", "engine/backends/cpu/native/kernels", "cuda/kernels", "cuda/cudnn",
           "eager/functions/", "eager/array_api/", "eager/node_names.py")  # fmt: skip
#: strings that are the name of an op by accident, by the beginning of the module's path
OTHER_MEANINGS = {
    "engine/backends/cpu/native/": {"sqrt", "floor", "ceil", "sin", "cos", "add", "trunc"},  # intrinsics of LLVM
    "engine/backends/cpu/native/cache_key.py": {"prepack"},  # a module
    "engine/backends/cpu/native/prepack.py": {"prepack", "apply_prepacked"},  # it registers the kernels of these ops
    "graph/operator_layers.py": set(OPS),  # PyTorch's functions, and the layers for them
    "graph/symbolic_operators.py": set(OPS),  # likewise
    "cuda/": {"is_finite"},  # the kernel that checks the loss
    "eager/value_bounds.py": {"bounded_values"},  # the function of tensors that records it
    "eager/printing.py": {"full"},  # a profile of set_printoptions
    "graph/plan_printer.py": {"fused"},  # a key of the report's JSON
    "train/": {"sum"},  # the name of a metric's state, which saved files contain
    "data/pipeline/source.py": {"crop"},  # how images of other sizes become equal
    "train/monitors.py": {"min", "max"},  # a callback's options
    "train/metric_totals.py": {"min", "max"},  # the direction in which a metric improves
    "train/profiler.py": {"all"},
    "train/synthetic_batch.py": {"one_hot"},  # a form of targets
    "train/target_scaling.py": {"log"},  # a scale of targets
    "train/class_weights.py": {"one_hot"},  # likewise
}


def modules():
    for folder in ("graph", "runtime", "eager", "train", "engine/backends"):
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            name = path.relative_to(PACKAGE).as_posix()
            if not name.startswith(KERNELS):
                yield name


@pytest.mark.parametrize("module", list(modules()))
def test_no_module_but_kernels_names_an_op(module):
    tree = ast.parse((PACKAGE / module).read_text(encoding="utf-8"))
    strings = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    names = {name for name, op in OPS.items() if isinstance(op, Op)}
    other = set().union(*(words for prefix, words in OTHER_MEANINGS.items() if module.startswith(prefix)))
    assert strings & names - other == set()


NEW_OP = """
from prototorch.ops.core import Op
from prototorch.ops.elementwise import UnaryOp

class SoftStep(UnaryOp):
    derivatives = (lambda g, y, x: g * y * (1 - y),)

    def reference(self, xp, x):
        return 1 / (1 + xp.exp(-x))

soft_step = SoftStep()
"""
ON_THE_CPU = """
import numpy as np
from prototorch import ops
from prototorch.engine.backends.cpu import cpu
from prototorch.graph.ir import Graph
from prototorch.graph.plan import make_plan
from prototorch.runtime.executor import make_executor
from prototorch.spec import Spec

backend = cpu("native")
graph = Graph()
x, w = graph.input("x", Spec((40, 30))), graph.input("w", Spec((30, 20)))
plan = make_plan(graph, {"y": soft_step(ops.matmul(x, w)) * 2.0}, None, backend)
print(len(plan.steps))
a, b = (np.random.default_rng(i).standard_normal(s).astype("float32") for i, s in enumerate(((40, 30), (30, 20))))
y = make_executor(plan, backend, {})({"x": a, "w": b})["y"]
np.testing.assert_allclose(y, 2 / (1 + np.exp(-(a @ b))), rtol=1e-5, atol=1e-6)
"""


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_new_elementwise_op_is_fused_on_the_cpu_from_its_class_alone():
    pytest.importorskip("llvmlite")
    assert run(NEW_OP + ON_THE_CPU) == "1"


def test_costs_follow_from_the_decomposition():
    x, vector = Spec((4, 3, 5, 5)), Spec((3,))
    attrs = {"eps": 1e-3}
    outs = ops.batch_norm.infer_spec(x, vector, vector, **attrs)
    assert ops.batch_norm.flops((x, vector, vector), outs, attrs) > 5 * x.size
    assert ops.batch_norm.bytes_moved((x, vector, vector), outs, attrs) == 4 * (2 * x.size + 4 * 3)


@pytest.mark.parametrize(("op", "shapes", "attrs", "dependences", "expected"), [
    (ops.add, [(8, 3), (3,)], {}, (BATCHED, INDEPENDENT), True),
    (ops.add, [(8, 3), (8, 3)], {}, (BATCHED, INDEPENDENT), False),
    (ops.add, [(8, 3), (8, 3)], {}, (BATCHED, UNIFORM), True),
    (ops.sum, [(8, 3)], {"axis": 1}, (BATCHED,), True),
    (ops.sum, [(8, 3)], {"axis": None}, (BATCHED,), False),
    (ops.matmul, [(8, 3), (3, 4)], {}, (BATCHED, INDEPENDENT), True),
    (ops.matmul, [(8, 3), (8, 4)], {"transpose_a": True}, (BATCHED, BATCHED), False),
    (ops.softmax, [(8, 3)], {}, (BATCHED,), True),
    (ops.transpose, [(8, 3)], {"order": (1, 0)}, (BATCHED,), False),
    (ops.batch_norm, [(8, 3), (3,), (3,)], {"eps": 1e-3}, (BATCHED, INDEPENDENT, INDEPENDENT), None),
], ids=lambda v: getattr(v, "name", ""))  # fmt: skip
def test_the_batch_axis(op, shapes, attrs, dependences, expected):
    ins = tuple(map(Spec, shapes))
    outs = op.infer_spec(*ins, **attrs)
    outs = outs if isinstance(outs, tuple) else (outs,)
    assert op.preserves_batch(ins, outs, attrs, dependences) is expected
