"""Wrong arguments of the functions that index, arrange and sort: errors in words, never one from inside."""

import contextlib
import importlib
import inspect

import pytest

import prototorch as pt
from prototorch.eager.registry import FUNCTIONS
from prototorch.errors import PrototorchError

importlib.import_module("prototorch.eager.functions")
MODULES = {"views", "axes", "splitting", "joining", "gathering", "scattering", "indexed_writes", "sorting", "searching",
           "rearranging", "counting", "quantiles", "integrals", "slice_scatter", "view_copies", "dlpack"}  # fmt: skip
NAMES = sorted(n for n, f in FUNCTIONS.items() if inspect.unwrap(f).__module__.rpartition(".")[2] in MODULES)


@pytest.mark.parametrize("name", NAMES)
def test_other_values_are_refused_in_words(name):
    x = pt.tensor([[1.0, 2.0], [3.0, 4.0]])
    for args in (
        [[1, 2]],
        [None],
        ["a"],
        [3],
        [x, None],
        [x, "a"],
        [x, 0, None],
        [x, 0, "a"],
        [x, 1.5],
        [x, [None]],
        [x, 0, x],
        [x, x],
        [x, x, x],
        [x, 0, [1, 2]],
        [x, 0, pt.tensor([0.5]), x],
        [x, 0, x, None],
        [[x, None]],
        [[None]],
    ):
        # TypeError: another number of arguments, Python's own
        with contextlib.suppress(PrototorchError, TypeError):
            FUNCTIONS[name](*args)
