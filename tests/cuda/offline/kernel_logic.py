"""Run a CUDA kernel on the CPU and compare it with the reference implementation, with guards around every output."""

from __future__ import annotations

import numpy as np

from prototorch.cuda import kernels as _all  # noqa: F401 - enters the kernels
from prototorch.cuda.kernels.launch import use_device
from prototorch.engine.backends.core import Backend
from prototorch.ops.core import run_on_arrays
from prototorch.ops.operators import OPS
from prototorch.spec import Spec
from tests.cuda.offline.shim_device import SANITIZER

GUARD = 64  # bytes before and after each output that nobody may touch
LAST = "channels_last"


def random_array(*shape, seed=0, dtype="float32"):
    """Normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def with_layout(array: np.ndarray, layout: str | None) -> np.ndarray:
    """The same elements, in memory by the layout, at an address that is a multiple of 64."""
    if SANITIZER == "address":  # memory that ends where the array ends
        turned = array if layout is None else np.moveaxis(array, 1, -1)
        made = np.array(turned, order="C", copy=True)
        return made if layout is None else np.moveaxis(made, -1, 1)
    spec = Spec(array.shape, array.dtype.name, layout)
    made, _ = guarded_output(spec)
    with np.errstate(all="ignore"):
        made[...] = array
    return made


def guarded_output(spec: Spec) -> tuple[np.ndarray, np.ndarray]:
    """An output of this spec (of 0xFF bytes: NaN, or nonsense) and the bytes around it."""
    dtype = np.dtype(spec.dtype)
    count = int(np.prod(spec.shape)) * dtype.itemsize
    raw = np.full(count + 2 * GUARD + 64, 0xFF, np.uint8)
    start = -raw.ctypes.data % 64 + GUARD
    inner = raw[start : start + count].view(dtype)
    if spec.layout == LAST:
        shape = (spec.shape[0], *spec.shape[2:], spec.shape[1])
        return np.moveaxis(inner.reshape(shape), -1, 1), raw
    return inner.reshape(spec.shape), raw


def run_kernel(device, name, arrays, attrs=None, layouts=None, out_layouts=None, only_kernel=True):
    """What the kernel of level "cuda" gives, as a tuple; the same where outputs lie over inputs, as plans lay them."""
    attrs = attrs or {}
    op = OPS[name]
    layouts = layouts or [None] * len(arrays)
    specs = [Spec(a.shape, a.dtype.name, lay) for a, lay in zip(arrays, layouts, strict=True)]
    outs = op.infer_spec(*(Spec(s.shape, s.dtype) for s in specs), **attrs)
    outs = outs if isinstance(outs, tuple) else (outs,)
    out_layouts = out_layouts or [None] * len(outs)
    outs = tuple(Spec(o.shape, o.dtype, lay) for o, lay in zip(outs, out_layouts, strict=True))
    backend = Backend("shim", np, ("cuda",))
    with use_device(device):
        if only_kernel:
            assert backend.kernel_level(op, tuple(specs), outs, attrs) == "cuda", (
                f"{name} {specs} fell to the reference implementation"
            )
        runner = backend.prepare(op, tuple(specs), outs, attrs)
    rooms = [guarded_output(o) for o in outs]
    runner([with_layout(a, lay) for a, lay in zip(arrays, layouts, strict=True)], [r for r, _ in rooms])
    for (made, raw), spec in zip(rooms, outs, strict=True):
        start = -raw.ctypes.data % 64 + GUARD
        count = spec.size * made.itemsize
        assert (raw[:start] == 0xFF).all(), f"{name} wrote before its output"
        assert (raw[start + count :] == 0xFF).all(), f"{name} wrote after its output"
    made = tuple(r for r, _ in rooms)
    check_inplace(runner, arrays, specs, outs, made, op.inplace_map(attrs))
    return made


def check_inplace(runner, arrays, specs, outs, made, over):
    """The same bits come where an output lies over the input that the op allows."""
    over = {out: at for out, at in over.items() if outs[out] == specs[at]}
    if not over:
        return
    given = [with_layout(a, s.layout) for a, s in zip(arrays, specs, strict=True)]
    again = [given[over[k]] if k in over else guarded_output(o)[0] for k, o in enumerate(outs)]
    runner(given, again)
    for one, two in zip(made, again, strict=True):
        assert np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(two).tobytes()


def check_kernel(device, name, arrays, attrs=None, layouts=None, out_layouts=None, rtol=2e-6, atol=1e-6):
    """The kernel against the reference implementation, in float32 for 16-bit floats, else in their dtype."""
    attrs = attrs or {}
    made = run_kernel(device, name, arrays, attrs, layouts, out_layouts)
    op = OPS[name]
    wide = [a.astype(np.float32) if a.dtype.name in ("bfloat16", "float16") else a for a in arrays]
    with np.errstate(all="ignore"):
        want = run_on_arrays(lambda *v: op(*v, **attrs), *wide)
    want = want if isinstance(want, tuple) else (want,)
    for got, expected in zip(made, want, strict=True):
        if got.dtype.name in ("bfloat16", "float16"):
            # one rounding to 8 or 11 bits
            tolerance = 2.0**-8 if got.dtype.name == "bfloat16" else 2.0**-10
            with np.errstate(over="ignore"):
                expected = expected.astype(got.dtype).astype(np.float32)  # so that both overflow alike
            np.testing.assert_allclose(got.astype(np.float32), expected, rtol=tolerance, atol=tolerance)
        elif got.dtype.kind in "biu":
            np.testing.assert_array_equal(got, expected)
        else:
            np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)
    return made
