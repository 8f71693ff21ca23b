"""The number of threads is the one that was asked for; several threads, and forked processes, may use one model."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import prototorch as pt
from prototorch.engine.backends.cpu import worker_pool
from prototorch.errors import UsageError
from tests.train.test_callbacks import fit, model


def test_compiling_leaves_the_threads_as_they_were_said():
    before = worker_pool.num_threads()
    try:
        worker_pool.set_num_threads(3)
        model = pt.load_model("mlp")
        assert model.trainer.plan_cache.backend.threads == worker_pool.num_threads() == 3
        model.compile(loss=model.compile_block.loss, threads=2)
        assert model.trainer.plan_cache.backend.threads == worker_pool.num_threads() == 2
    finally:
        worker_pool.set_num_threads(before)


def _net(seed=0):
    x = pt.Input((16,))
    model = pt.Model(x, pt.layers.Dense(3)(pt.layers.Dense(64, activation="relu")(x)))
    model.compile(loss="mse", optimizer="sgd", seed=seed)
    return model


def _data(rows, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 16)).astype(np.float32), rng.normal(size=(rows, 3)).astype(np.float32)


def test_threads_that_predict_with_one_model_get_their_own_results():
    model = _net()
    given = [_data(70, seed)[0] for seed in range(4)]
    wanted = [_net().predict(x) for x in given]  # the model itself has no plan yet: the threads make it together
    start = threading.Barrier(len(given))

    def ask(i):
        start.wait()
        for _ in range(40):
            np.testing.assert_array_equal(model.predict(given[i]), wanted[i])
            np.testing.assert_array_equal(model.predict_on_batch(given[i][:32]), wanted[i][:32])

    with ThreadPoolExecutor(len(given)) as threads:
        for done in [threads.submit(ask, i) for i in range(len(given))]:
            done.result()


def test_a_fit_beside_predictions_and_evaluations_of_other_threads_is_the_same():
    x, y = _data(70)
    held = _data(40, seed=1)
    alone = _net().fit(x, y, epochs=10, verbose=0, validation_data=held).history
    model, over = _net(), threading.Event()
    model.predict(x)

    def ask():
        while not over.is_set():
            model.predict(x)
            model.evaluate(x, y)

    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(ask)
        history = model.fit(x, y, epochs=10, verbose=0, validation_data=held).history
        over.set()
        asking.result()
    assert history == alone


def test_what_a_callback_reads_of_a_step_does_not_change_with_what_it_runs_before():
    x, y = _data(70)

    def logs(work):
        seen = []

        def look(batch, logs):
            work(model)
            seen.append(dict(logs))

        model = _net()
        model.fit(x, y, epochs=2, verbose=0, callbacks=[pt.callbacks.LambdaCallback(on_train_batch_end=look)])
        return seen

    wanted = logs(lambda model: None)
    assert logs(lambda model: model.predict(x)) == wanted
    assert logs(lambda model: model.evaluate(x, y)) == wanted


def test_logs_that_a_callback_keeps_stay_those_of_their_step():
    x, y = _data(70)
    kept, read = [], []
    model = _net()

    def look(batch, logs):
        kept.append(logs)

    def look_at_once(batch, logs):
        read.append(dict(logs))

    for hook in (look, look_at_once):
        model = _net()
        model.fit(x, y, epochs=2, verbose=0, callbacks=[pt.callbacks.LambdaCallback(on_train_batch_end=hook)])
    assert kept == read


@pytest.mark.parametrize("what", ["fit", "compile"])
@pytest.mark.parametrize("hook", ["on_train_begin", "on_train_batch_end", "on_epoch_end", "on_test_end"])
def test_a_callback_cannot_train_or_compile_what_is_being_trained(what, hook):
    x, y = _data(10)
    model = _net()

    def again(*_):
        if what == "fit":
            model.fit(x, y, verbose=0)
        else:
            model.compile(loss="mse")

    with pytest.raises(UsageError, match=f"{what}: the model is in the middle of a fit"):
        model.fit(
            x, y, verbose=0, validation_data=_data(5, seed=1), callbacks=[pt.callbacks.LambdaCallback(**{hook: again})]
        )
    assert len(model.fit(x, y, verbose=0).history["loss"]) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python warns of forks beside threads
def test_a_forked_process_may_use_a_model_whose_turn_another_thread_has():
    x, _ = _data(70)
    model = _net()
    wanted = model.predict(x)
    held, done = threading.Event(), threading.Event()

    def hold():
        with model.trainer.lock:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(model.predict(x), wanted) else 1)
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        done.set()
        holder.join()
    np.testing.assert_array_equal(model.predict(x), wanted)


def test_of_two_threads_that_fit_one_model_the_second_is_refused():
    """Claimed in one step: never do both train it, with half of the epochs each."""
    made, start, results = model(), threading.Barrier(2), []

    def train():
        start.wait()
        try:
            results.append(len(fit(made, [], epochs=20).history["loss"]))
        except UsageError as error:
            results.append(str(error))

    for _ in range(3):
        results.clear()
        threads = [threading.Thread(target=train) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        epochs = [r for r in results if isinstance(r, int)]
        assert all(n == 20 for n in epochs)  # one after the other is right, too
        assert len(epochs) + sum("in the middle of a fit" in r for r in results if isinstance(r, str)) == 2
        assert epochs
