"""The table of docs/gpu.md names the ops that no CUDA kernel is for, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from prototorch.cuda import kernels as _all  # noqa: F401 - enters the kernels
from prototorch.engine.backends.registry import kernels_of
from prototorch.ops.core import Op
from prototorch.ops.operators import OPS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "gpu.md"
#: ops that plans replace by views of memory, or that other backends alone ask for
NEVER_RUN = {
    "apply_prepacked", "concat_view", "lstm_sequence_with_gates", "lstm_sequence_with_gates_grad", "prepack", "relabel",
    "transpose_view",
    "reshape", "slice_view", "stop_gradient",
}  # fmt: skip


def test_the_table_is_complete():
    ops = {name: op for name, op in OPS.items() if isinstance(op, Op) and type(op).__module__.startswith("prototorch.")}
    missing = {n for n, op in ops.items() if not kernels_of("cuda", n) and not op.decompose_without_kernel}
    table = PAGE.read_text(encoding="utf-8").partition("**Ops without a kernel**")[2].partition("\n\nSo do")[0]
    assert missing - NEVER_RUN == set(re.findall(r"`(\w+)`[,| ]", table))
