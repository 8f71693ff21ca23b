"""Results that are written past the caches are the same as others."""

import numpy as np
import pytest

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
streams = pytest.importorskip("prototorch.engine.backends.cpu.native.nontemporal", exc_type=ImportError)
check = native_check.check


@pytest.mark.parametrize("odd", [0, 4, 32])  # arrays that begin at cache lines, and others
@pytest.mark.parametrize("channels", [32, 33])
@pytest.mark.parametrize("layouts", [None, "channels_last"])
def test_sweeps(bits, monkeypatch, layouts, channels, odd):
    monkeypatch.setattr(streams, "MIN_BYTES", 0)
    monkeypatch.setattr(native_check, "ODD", odd)
    x = np.random.default_rng(0).normal(size=(3, channels, 27, 19)).astype("float32")
    check("relu", x, layouts=layouts)
    check("add", x, x[:1, :, :1, :1], layouts=layouts, rtol=1e-7)
    check("add", x, x + 1, layouts=layouts, rtol=1e-7)
    check("broadcast_to", x[:, :, :1, :1].copy(), layouts=layouts, shape=x.shape)


@pytest.mark.parametrize("channels", [32, 33])
def test_other_kernels(bits, monkeypatch, channels):
    monkeypatch.setattr(streams, "MIN_BYTES", 0)
    monkeypatch.setattr(native_check, "ODD", 0)
    x = np.random.default_rng(0).normal(size=(2, channels, 20, 48)).astype("float32")
    check("reorder", x, layout="channels_last")
    check("reorder", x, layouts="channels_last", layout=None)
    check("lrn", x, layouts="channels_last", rtol=2e-6, size=5, alpha=0.1, beta=0.75, k=2.0)
    pool = {"kernel": (3, 3), "strides": (2, 2), "pads": ((1, 1), (1, 1))}
    y, number = check("max_pool", x, layouts="channels_last", **pool)
    size = {"size": x.shape[2:], "layouts": "channels_last", "atol": 1e-6}
    check("max_pool_grad", y.copy(), number.copy(), **size, **pool)
    check("avg_pool_grad", y.copy(), **size, **pool)


def test_a_choice_of_code(monkeypatch):
    monkeypatch.setattr(streams, "has_nontemporal_stores", lambda: True)
    made = []

    class Code:
        def __init__(self, past):
            self.address = 1 + past
            made.append(past)

    outs = (native_check.Spec((1 << 23,)),)
    choose = streams.choose_nontemporal(Code, outs, 64)
    assert made == [False, True]
    assert choose([64], [128]) == 2
    assert choose([64], [132]) == 1  # not at a cache line
    assert choose([128], [128]) == 1  # in place
    assert streams.choose_nontemporal(Code, outs, 63)([64], [128]) == 1  # rows end within vectors
    assert streams.choose_nontemporal(Code, (native_check.Spec((1 << 10,)),), 64)([64], [128]) == 1
