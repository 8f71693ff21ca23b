"""Random scenarios of fit beside Keras: the names and values of the history, an evaluation, predictions."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import prototorch as pt
from tests.keras_random.draw import drawing, seeds
from tests.keras_random.fit_cases import compared_names, draw_fit_case

#: float32 over some dozen steps
TOLERANCE = 1e-3
pytestmark = pytest.mark.filterwarnings("ignore")


def build(library, case):
    """The net of the case, compiled."""
    layers = library.layers
    x = library.Input((3,) if case.steps is None else (case.steps, 3), name="x")
    h = x
    if case.steps is not None:
        h = layers.GRU(3, return_sequences=case.per_step, name="gru")(layers.Masking(name="masking")(h))
    h = layers.Dense(case.units, activation="tanh", kernel_regularizer=case.penalty, name="hidden")(h)
    outputs = [layers.Dense(head.units, activation=head.activation, name=head.name)(h) for head in case.heads]
    several = len(outputs) > 1
    model = library.Model(x, outputs if several else outputs[0])
    losses = {head.name: getattr(library.losses, head.loss[0])(**head.loss[1]) for head in case.heads}
    metrics = {head.name: list(head.metrics) for head in case.heads}
    weighted = {head.name: list(head.weighted_metrics) for head in case.heads}
    factors = {head.name: head.weight for head in case.heads}
    if not several:
        losses, metrics, weighted = (next(iter(d.values())) for d in (losses, metrics, weighted))
    kind, options = case.optimizer
    model.compile(
        optimizer=getattr(library.optimizers, kind)(**options),
        loss=losses,
        metrics=metrics,
        weighted_metrics=weighted,
        loss_weights=factors if several else None,
    )
    return model


def give_weights(model, peer):
    """Our weights for Keras' net: dense and recurrent kernels have the same layout."""
    for layer in peer.layers:
        for variable in layer.weights:
            name = f"{layer.name}/{variable.name}"
            if name in model.weights:
                variable.assign(np.array(model.weights[name]))


def by_output(model, case, arrays):
    """Targets as an argument: one array, or several by the outputs' names (for Keras in their order)."""
    if len(case.heads) == 1:
        return arrays[case.heads[0].name]
    return arrays if isinstance(model, pt.Model) else [arrays[head.name] for head in case.heads]


def sample_weights(model, case, weight):
    """Weights of the samples as an argument: Keras wants one array for each of several outputs."""
    if weight is None or len(case.heads) == 1 or isinstance(model, pt.Model):
        return weight
    return [weight] * len(case.heads)


def run(model, case):
    """The history, an evaluation and predictions."""
    given, y = sample_weights(model, case, case.weight), by_output(model, case, case.y)
    arguments = dict(case.arguments)
    if case.validation is not None:
        x, targets, weight = case.validation
        rest = () if weight is None else (sample_weights(model, case, weight),)
        arguments["validation_data"] = (x, by_output(model, case, targets), *rest)
    history = model.fit(case.x, y, sample_weight=given, verbose=0, **arguments)
    more = {"return_dict": True} if isinstance(model, keras.Model) else {}
    results = model.evaluate(case.x, y, sample_weight=given, batch_size=4, verbose=0, **more)
    predictions = model.predict(case.x, **({"verbose": 0} if more else {}))
    if isinstance(predictions, dict):
        predictions = list(predictions.values())
    return history, results, predictions if isinstance(predictions, list) else [predictions]


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_fit_is_keras(seed, monkeypatch):
    if seed % 4:  # the others compile native kernels, which takes longer than they run
        monkeypatch.setenv("PROTOTORCH_CPU", "numpy")
    with drawing("fits", seed) as draw:
        case = draw_fit_case(draw)
        model, peer = build(pt, case), build(keras, case)
        model.predict(case.x[:1])  # makes the weights
        give_weights(model, peer)
        history, results, predictions = run(model, case)
        theirs, other_results, other_predictions = run(peer, case)
        assert history.epoch == theirs.epoch
        mine = compared_names(history.history)
        assert set(mine) == set(theirs.history)
        for name, values in theirs.history.items():
            np.testing.assert_allclose(mine[name], values, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)
        assert results.keys() == other_results.keys()
        for name, value in other_results.items():
            np.testing.assert_allclose(results[name], value, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)
        for a, b in zip(predictions, other_predictions, strict=True):
            np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, err_msg="predictions")
