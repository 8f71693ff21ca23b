"""The order of work on a GPU, and the second GPU where there is one."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import prototorch as pt
from prototorch.cuda.availability import query_driver, unavailable_reason
from prototorch.cuda.device_kind import cuda_backend
from prototorch.engine.backends.precision import ExecutionSettings, resolve_precision
from prototorch.ops.operators import OPS
from prototorch.spec import Spec
from tests.cuda.fake.fake_gpu import make_data, make_net

if unavailable_reason():
    pytest.skip(unavailable_reason(), allow_module_level=True)

DRIVER = query_driver()
two_gpus = pytest.mark.skipif(DRIVER is not None and DRIVER.gpus < 2, reason="there is one GPU")
SIZE = 1 << 22


def test_an_array_that_is_still_being_computed_is_converted_afterwards(gpu):
    """Kernels of some milliseconds are enqueued before: on another stream the conversion would be first."""
    backend, spec = gpu("fp32"), Spec((SIZE,))
    source, result = backend.asarray(np.full(SIZE, 0.5, np.float32)), backend.empty(spec)
    run = backend.prepare(OPS["tanh"], (spec,), (spec,), {})
    for _ in range(20):
        with backend.run_context():
            run([source], [result])
            for _ in range(50):
                run([result], [result])
        expected = np.float32(0.5)
        for _ in range(51):
            expected = np.tanh(expected)
        converted = backend.to_numpy(backend.asarray(result, "float16"))
        np.testing.assert_allclose(converted[:: SIZE // 64].astype(np.float32), expected, rtol=2e-3)


def test_two_threads_share_a_gpu(gpu):
    """Tensors of two threads, on the one stream of the GPU: results are those of one thread."""
    gpu("fp32")
    found = {}

    def work(seed):
        x = pt.tensor(np.random.default_rng(seed).standard_normal((64, 64)).astype("float32"), device="cuda")
        for _ in range(50):
            x = (x @ x.T).tanh() * 0.1
        found.setdefault(seed, []).append(x.cpu().numpy())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in (0, 1):
        work(seed)
        np.testing.assert_array_equal(*found[seed])


@two_gpus
def test_models_on_two_gpus_are_trained_as_on_one():
    x, y = make_data(64)
    loss = pt.losses.SparseCategoricalCrossentropy(from_logits=True)
    models = [make_net() for _ in range(2)]
    for k, model in enumerate(models):
        model.compile("adam", loss, device=f"cuda:{k}", precision="fp32", deterministic=True, seed=3)
    for _ in range(2):
        for model in models:
            model.fit(x, y, batch_size=8, verbose=0)
    first, second = (model.get_weights() for model in models)
    for name, array in first.items():
        np.testing.assert_allclose(array, second[name], rtol=1e-5, atol=1e-6, err_msg=name)


@two_gpus
def test_tensors_move_between_two_gpus():
    x = pt.arange(12, device="cuda:0").reshape(3, 4)
    y = x.to("cuda:1").T.contiguous()
    assert y.device == "cuda:1"
    assert (y + 1).tolist() == (x.cpu().T + 1).tolist()
    settings = ExecutionSettings(resolve_precision("fp32", gpu=True))
    assert cuda_backend(settings, 0) is not cuda_backend(settings, 1)
