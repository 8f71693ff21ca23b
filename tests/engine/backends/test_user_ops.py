"""Ops defined outside the package: their kernels are generated, and none is that of another op of the same name."""

import os
import subprocess
import sys

import numpy as np
import pytest

import prototorch as pt
from prototorch.cuda.kernels import elementwise as cuda_elementwise
from prototorch.engine.backends.cpu import cpu, native
from prototorch.engine.backends.registry import kernels_of
from prototorch.engine.harness import temporary_definitions
from prototorch.ops.elementwise import UnaryOp
from prototorch.spec import Spec

pytestmark = pytest.mark.skipif(native.unavailable_reason() is not None, reason="no native kernels here")
SHAPE = (64, 1024)  # large enough for a native kernel
SCRIPT = """
import numpy as np
import prototorch as pt
from prototorch.ops.elementwise import UnaryOp

class UserScale(UnaryOp):
    def reference(self, xp, x):
        return x * FACTOR

scale = UserScale()
print(pt.compile(lambda x: scale(x) + 1)(pt.tensor(np.ones((64, 1024), np.float32))).numpy().max())
"""


def user_scale(factor):
    class UserScale(UnaryOp):
        def reference(self, xp, x):
            return x * factor

    return UserScale()


@pytest.fixture(autouse=True)
def _definitions():
    with temporary_definitions():
        yield


def test_an_op_defined_after_the_first_kernel_has_a_generated_one():
    level = cpu("native").kernel_level(user_scale(2.0), (Spec(SHAPE),), (Spec(SHAPE),), {})
    assert level == "native"


@pytest.mark.parametrize("run", [lambda f, x: f(x), lambda f, x: pt.compile(lambda v: f(v) + 1)(x) - 1])
def test_an_op_that_is_defined_again_computes_its_new_formula(run):
    x = pt.tensor(np.ones(SHAPE, np.float32))
    for factor in (2.0, 3.0, 5.0):
        assert run(user_scale(factor), x).numpy().max() == factor


def test_the_cuda_kernel_of_an_op_that_is_defined_again_is_the_new_one():
    program, outputs = (("user_scale", (("in", 0),), ()),), (("node", 0, 0),)
    lines = []
    for factor in (2.0, 3.0):
        user_scale(factor)
        kernels_of("cuda", "user_scale")
        lines.append(cuda_elementwise.trace_program(program, outputs, ("float32",))[0])
    assert lines[0] != lines[1]


def test_code_kept_on_disk_is_not_that_of_another_op_of_the_same_name(tmp_path):
    """A notebook's cells have no source file whose change would be seen."""
    environment = {**os.environ, "PROTOTORCH_CACHE": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    for factor in (2.0, 3.0):
        code = SCRIPT.replace("FACTOR", str(factor))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        assert float(done.stdout) == factor + 1
