"""Random nets on all levels of the CPU: the same results, the same bits on one thread and two, the same text again.

The seeds of the ordinary suite are few. As many as one likes, from a first one on, 20 where nothing is said:

    PROTOTORCH_NETS=1000:1200 pytest -m slow tests/nets -k many

A seed that fails is looked at by `python -m tests.nets.one_net SEED`, which prints its text and tries it.
"""

import os

import pytest

from prototorch.engine.backends.cpu import native
from prototorch.model.load import model_from_text
from tests.nets.random_nets import random_model
from tests.nets.trained_levels import checked

pytestmark = [
    pytest.mark.filterwarnings("ignore::prototorch.errors.ModelWarning"),  # a mask may end in a random net
    pytest.mark.filterwarnings("ignore:data. the targets of:prototorch.data.checks.DataWarning"),  # they are random
    pytest.mark.filterwarnings("ignore:data. the values of:prototorch.data.checks.DataWarning"),  # of random layers
]
needs_native = pytest.mark.skipif(native.unavailable_reason() is not None, reason="no native kernels here")

FIRST, LAST = (int(n) for n in os.environ.get("PROTOTORCH_NETS", "100:120").split(":"))


@pytest.mark.parametrize("seed", range(80))
def test_texts_read_back_equal(seed):
    made = random_model(seed)
    assert made.text == random_model(seed).text, "the same number gives the same model"
    model = model_from_text(made.text)
    assert model.net == made.net
    assert model.compile_block == made.compiled
    assert model.to_text() == made.text


#: one of each kind of net; all of them in some 25 s of one core
SEEDS = (2, 7, 10, 11, 25, 53, 1003, 3004)


@needs_native
@pytest.mark.parametrize("seed", SEEDS)
def test_levels_agree(seed):
    assert checked(random_model(seed)) == "ok"


@needs_native
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST, LAST))
def test_levels_agree_on_many(seed):
    checked(random_model(seed))
