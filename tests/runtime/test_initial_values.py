"""How weights and slots begin: the same numbers whatever draws them, in arrays of their own."""

import numpy as np
import pytest

import prototorch as pt
from prototorch.engine.backends.cpu import worker_pool
from prototorch.graph.weight_spec import WeightSpec
from prototorch.initializers import Initializer
from prototorch.runtime.variables import Variables, initial_value
from prototorch.spec import Spec
from prototorch.train.variable_inits import initial_slot

LARGE = (1300, 1700)  # three streams
#: the standard error of the mean of so many numbers is 1 / 1487 of their deviation, that of the deviation less
CLOSE = 5 / 1487


def weight(name, shape, initializer):
    return WeightSpec(name, Spec(shape), initializer, fans=(shape[0], shape[1]))


def drawn(initializer, threads, shape=LARGE):
    before = worker_pool.num_threads()
    worker_pool.set_num_threads(threads)
    try:
        return initial_value(weight("w", shape, initializer), 7)
    finally:
        worker_pool.set_num_threads(before)


@pytest.mark.parametrize("name", ["glorot_uniform", "he_normal", "random_normal", "random_uniform", "truncated_normal"])
def test_large_weights_are_the_same_on_any_number_of_threads(name):
    one, three = (drawn(Initializer.lookup(name)(), n) for n in (1, 3))
    assert one.dtype == np.float32
    assert one.tobytes() == three.tobytes()
    flat = one.ravel()
    assert not np.array_equal(flat[:1000], flat[1 << 20 : (1 << 20) + 1000])  # each stream has numbers of its own


def test_their_distribution():
    normal = drawn(pt.initializers.RandomNormal(mean=0.5, stddev=2.0), 2)
    assert abs(normal.mean() - 0.5) < 2.0 * CLOSE
    assert abs(normal.std() - 2.0) < 2.0 * CLOSE
    cut = drawn(pt.initializers.TruncatedNormal(stddev=1.0), 2)
    assert np.abs(cut).max() <= 2
    uniform = drawn(pt.initializers.RandomUniform(minval=1.0, maxval=3.0), 2)
    assert 1.0 <= uniform.min() < uniform.max() <= 3.0
    assert abs(uniform.mean() - 2.0) < CLOSE


class Shared:
    """Gives away an array that it keeps."""

    def values(self, shape, rng, fans):
        return KEPT


KEPT = np.ones((3, 4), np.float32)


def test_an_array_that_somebody_holds_is_copied():
    made = initial_value(weight("w", (3, 4), Shared()), 0)
    made[...] = 5
    assert (KEPT == 1).all()


def test_variables_keep_what_is_their_own_and_copy_the_rest():
    variables = Variables()
    a = np.zeros(3, np.float32)
    variables.create("own", a, own=True)
    variables.create("copy", a)
    a += 1
    assert variables["own"].tolist() == [1, 1, 1]
    assert variables["copy"].tolist() == [0, 0, 0]


def test_a_slot_is_an_array_of_its_own():
    for first in (np.full((4, 2), 0.5, np.float32), np.zeros((4, 2), np.float32)):
        made = initial_slot(first)
        np.testing.assert_array_equal(made, first)
        assert not np.shares_memory(made, first)
