"""Weights are in memory once while they are drawn, and while they are read."""

import tracemalloc

import numpy as np
import pytest

import prototorch as pt


def dense():
    return pt.Sequential([pt.Input((1000,)), pt.layers.Dense(3000, name="large"), pt.layers.Dense(2)])


def peak_of(work):
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_drawing_makes_no_copy():
    dense().build()  # imports what is needed
    _, peak = peak_of(lambda: dense().build())
    assert 12e6 < peak < 18e6  # 3 million numbers of 4 bytes


@pytest.mark.parametrize("compiled", [False, True])
def test_reading_makes_no_copy(tmp_path, compiled):
    model = dense()
    if compiled:
        model.compile("sgd", "mse")
    model.build()
    model.save(tmp_path / "m.h5")
    pt.load_model(tmp_path / "m.h5")
    read, peak = peak_of(lambda: pt.load_model(tmp_path / "m.h5"))
    assert 12e6 < peak < 18e6
    for name, array in model.get_weights().items():
        np.testing.assert_array_equal(read.get_weights()[name], array)
    before = read.get_weights()["large/kernel"]
    read.compile("sgd", "mse")
    read.train_on_batch(np.ones((2, 1000), "float32"), np.ones((2, 2), "float32"))
    assert not np.array_equal(before, read.get_weights()["large/kernel"])
