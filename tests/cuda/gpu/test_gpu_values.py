"""Values outside of their bounds on a GPU: counted in the step, written into the host's memory, raised later."""

from __future__ import annotations

import pytest

import prototorch as pt
from prototorch.cuda.availability import unavailable_reason
from prototorch.eager.interpreter import interpreter_for
from prototorch.errors import IndexRangeError, UsageError

if unavailable_reason():
    pytest.skip(unavailable_reason(), allow_module_level=True)


def lookup():
    """A compiled function that changes a state; the state."""
    table, counter = pt.arange(12.0, device="cuda").reshape(4, 3), pt.zeros(3, device="cuda")

    @pt.compile
    def function(i):
        counter.add_(1)
        return table[i].sum()

    return function, counter


def index(*numbers):
    return pt.tensor(numbers, device="cuda")


@pytest.mark.parametrize("calls", [1, 6])
def test_an_index_outside_changes_nothing(calls):
    """Kernel by kernel, and as a captured graph."""
    function, counter = lookup()
    for _ in range(calls):
        function(index(0, 1))
    result = function(index(0, 7))
    with pytest.raises(IndexRangeError, match=r"\b7\b"):
        result.item()
    assert counter.tolist() == [calls] * 3
    assert function(index(0, 1)).item() == 15
    assert counter.tolist() == [calls + 1] * 3


def test_the_next_call_knows_without_waiting():
    """The device writes into pinned memory of the host."""
    function, counter = lookup()
    function(index(0, 7))
    device = interpreter_for("cuda").backend.device
    event = device.create_event()
    device.record_event(event, device.compute_stream)
    device.synchronize_event(event)  # which tells nothing of the error, and copies nothing
    with pytest.raises(IndexRangeError, match=r"\b7\b"):
        function(index(0, 1))
    assert counter.tolist() == [0, 0, 0]


def test_synchronize_raises():
    function, _ = lookup()
    function(index(0, 7))
    function(index(0, 1))
    with pytest.raises(IndexRangeError, match=r"\b7\b.*an earlier call"):
        pt.cuda.synchronize()


def test_numbers_and_divisors():
    loss = pt.compile(pt.nn.functional.binary_cross_entropy)
    for _ in range(5):
        loss(pt.tensor([0.5], device="cuda"), pt.tensor([1.0], device="cuda")).item()
    with pytest.raises(UsageError, match=r"got 1\.5"):
        loss(pt.tensor([1.5], device="cuda"), pt.tensor([1.0], device="cuda")).item()
    with pytest.raises(UsageError, match="integers by 0"):
        pt.compile(lambda a, b: a // b)(index(4, 5), index(2, 0)).tolist()
