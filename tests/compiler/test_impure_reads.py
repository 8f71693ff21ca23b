"""What differs from call to call is refused while a function is traced, and sets are guarded by their content."""

import datetime
import os
import random
import time
from array import array
from collections import deque
from random import random as draw

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import ModelWarning, UsageError

X = pt.ones(2)
GENERATOR = np.random.default_rng(0)
READS = {
    "random.random": lambda x: x * random.random(),
    "by another name": lambda x: x * draw(),
    "randint": lambda x: x * random.randint(0, 5),
    "shuffle": lambda x: (random.shuffle([1, 2, 3]), x)[1],
    "np.random.rand": lambda x: x * float(np.random.rand()),
    "np.random.normal": lambda x: x * np.random.normal(),
    "a generator": lambda x: x * GENERATOR.standard_normal(),
    "time": lambda x: x * time.time(),
    "perf_counter": lambda x: x * time.perf_counter(),
    "now": lambda x: x * datetime.datetime.now().year,
    "environ": lambda x: x * float(os.environ["HOME"] != ""),
    "environ.get": lambda x: x * float(os.environ.get("SOME_NUMBER", "2")),
    "getenv": lambda x: x * float(os.getenv("SOME_NUMBER", "2")),
    "urandom": lambda x: x * os.urandom(1)[0],
}


@pytest.mark.parametrize("name", READS)
def test_a_read_is_refused_with_its_line(name):
    line = READS[name].__code__.co_firstlineno
    with pytest.raises(UsageError, match=f"test_impure_reads.py:{line}: .*as an argument"):
        pt.compile(READS[name])(X)


def test_the_line_of_a_draw_is_that_of_the_draw():
    def function(x):
        noise = np.random.rand()
        y = x + 1
        return y * noise

    line = function.__code__.co_firstlineno + 1
    with pytest.raises(UsageError, match=f"test_impure_reads.py:{line}: np.random"):
        pt.compile(function)(X)


def test_a_function_that_is_saved_is_looked_at_as_well(tmp_path):
    for name in ("random.random", "np.random.rand", "time"):
        with pytest.raises(UsageError, match="as an argument"):
            pt.compile(READS[name]).save(tmp_path / "f.h5", X)
    assert not list(tmp_path.iterdir())


def test_the_package_draws_anew_and_a_deadline_outside_is_no_read():
    function = pt.compile(lambda x: pt.nn.functional.dropout(x + pt.rand(2)))
    before = time.time()
    assert not np.array_equal(function(X).numpy(), function(X).numpy())
    assert time.time() >= before


def test_print_runs_once_and_warns(capsys):
    function = pt.compile(lambda x: (print("traced"), x * 2)[1])
    with pytest.warns(ModelWarning, match="print runs once"):
        function(X)
    function(X)
    assert capsys.readouterr().out == "traced\n"


GLOBAL_SET = {1, 2}


class Holder:
    def __init__(self):
        self.items = {1, 2}


def _closure():
    items = {1, 2}
    return items, lambda x: x * sum(items)


def _attribute():
    holder = Holder()
    return holder.items, lambda x: x * sum(holder.items)


def _default():
    items = {1, 2}
    return items, lambda x, items=items: x * sum(items)


def _nested():
    items = {1, 2}
    groups = {"a": [items]}
    return items, lambda x: x * sum(groups["a"][0])


SETS = {
    "closure": _closure,
    "attribute": _attribute,
    "global": lambda: (GLOBAL_SET, lambda x: x * sum(GLOBAL_SET)),
    "default": _default,
    "nested": _nested,
}


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_guarded_by_its_content(name):
    items, function = SETS[name]()
    compiled = pt.compile(function)
    for change in (lambda: None, lambda: items.add(5), lambda: (items.remove(1), items.add(7))):
        change()
        assert float(compiled(X)[0]) == sum(items)
    assert compiled.num_plans == 3
    compiled(X)
    assert compiled.num_plans == 3


@pytest.mark.parametrize(
    "items", [deque([1, 2]), bytearray(b"\x01\x02"), array("i", [1, 2])], ids=lambda v: type(v).__name__
)
def test_other_containers_are_guarded_by_their_content(items):
    compiled = pt.compile(lambda x: x * sum(items))
    assert float(compiled(X)[0]) == 3
    items[0] = 9
    assert float(compiled(X)[0]) == 11
