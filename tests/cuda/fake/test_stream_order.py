"""Work on a device's arrays is in the order of its stream: what is read has been computed."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.cuda.fake_device import FakeDevice
from prototorch.cuda.fake_device_array import UnorderedWorkError
from prototorch.ops.operators import OPS
from prototorch.ops.strided_array import as_strided
from prototorch.spec import Spec
from tests.cuda.fake.fake_cuda import use_fake_cuda
from tests.cuda.fake.fake_gpu import fake_backend


def test_an_array_that_is_still_being_computed_is_converted_afterwards():
    backend = fake_backend()
    spec = Spec((300,))
    source, result = backend.asarray(np.full(300, 0.5, np.float32)), backend.empty(spec)
    with backend.run_context():
        backend.prepare(OPS["exp"], (spec,), (spec,), {})([source], [result])
    converted = backend.asarray(result, "float16")  # the device has not run the kernel yet
    np.testing.assert_allclose(backend.to_numpy(converted), np.exp(np.float32(0.5)), rtol=1e-3)


OPERATIONS = {
    "astype": lambda a: a.astype("float16"),
    "a copy": lambda a: a.copy(),
    "an assignment": lambda a: a.__setitem__(0, 1.0),
    "a sum": lambda a: a.sum(),
    "a product": lambda a: a * 2,
    "an addition in place": lambda a: a.__iadd__(1),
    "a function": lambda a: np.concatenate([a, a]),
    "np.copyto": lambda a: np.copyto(a, 0),
    "fill": lambda a: a.fill(1),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_an_operation_outside_of_the_stream_is_an_error(operation):
    array = FakeDevice().upload(np.ones(300, np.float32))
    with pytest.raises(UnorderedWorkError, match="on a device's array outside of its streams"):
        operation(array)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_the_same_operation_may_be_enqueued(operation):
    device = FakeDevice()
    array = device.upload(np.ones(300, np.float32))
    device.enqueue("operation", lambda: operation(array))
    assert np.isfinite(device.download(array)).all()


def test_views_launch_nothing():
    array = FakeDevice().upload(np.ones((3, 100), np.float32))
    for view in (
        array.T,
        array[1:, ::2],
        array.reshape(-1),
        np.moveaxis(array, 1, 0),
        array.view("int32"),
        as_strided(array, (2, 5), (400, 8)),
    ):
        assert FakeDevice().owns(view)


def test_memory_of_freed_arrays_is_free():
    device = FakeDevice()
    array = device.empty_pooled((100,), "float32")
    assert device.memory_usage().used == 400
    view = array[10:]
    del array
    assert device.memory_usage().used == 400
    del view
    assert device.memory_usage().used == 0


def test_an_optimizers_coefficients_follow_the_stream():
    """The learning rate of a step is not there before the step before has been computed with its own."""
    rates = (0.5, 0.25, 0.125)
    results = []
    with use_fake_cuda():
        for device in ("cpu", "cuda"):
            x = pt.ones(4, device=device, requires_grad=True)
            optimizer = pt.optim.SGD([x], lr=1.0, momentum=0.5)
            for rate in rates:
                optimizer.param_groups[0]["lr"] = rate
                optimizer.zero_grad()
                (x.reshape(2, 2).T * x.reshape(2, 2)).sum().backward()
                optimizer.step()
            results.append(x.tolist())
    assert results[0] == results[1]
