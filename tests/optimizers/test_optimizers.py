"""What optimisers promise beyond the formulas: multipliers, clipping, text, messages, every one of their examples."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch import optimizers as O
from prototorch import tensor
from prototorch.errors import UsageError
from prototorch.graph.weight_spec import WeightSpec
from prototorch.initializers import Zeros
from prototorch.optimizers import schedules as S
from prototorch.spec import Spec
from prototorch.text.diagnostics import Report

MEMBERS = [*O.Optimizer.members().values(), *S.Schedule.members().values()]
EXAMPLES = [(cls, e.text) for cls in MEMBERS for e in cls.examples]


def one_step(optimizer, value, grad, **extra):
    weight = WeightSpec("layer/kernel", Spec(np.shape(value)), Zeros(), (1, 1), **extra)
    slots = {k: tensor(a) for k, a in optimizer.initial_slots(weight).items()}
    rate, step = tensor(np.float32(optimizer.learning_rate)), tensor(np.int64(1))
    new, _ = optimizer.apply(tensor(np.float32(value)), tensor(np.float32(grad)), slots, rate, step, weight)
    return new.numpy()


def test_lr_mult_multiplies_the_learning_rate():
    for cls in (O.SGD, O.Adam, O.RMSprop, O.Lion):
        whole, half = (one_step(cls(0.5), [0.0, 0.0], [1.0, -2.0], lr_mult=m) for m in (1.0, 0.5))
        np.testing.assert_allclose(half, whole / 2, rtol=1e-6)


def test_decay_mult_multiplies_both_decays():
    assert one_step(O.SGD(0.1, weight_decay=0.5), [1.0], [0.0], decay_mult=2.0) == pytest.approx(0.9)
    assert one_step(O.SGD(0.1, l2=0.5), [1.0], [0.0], decay_mult=2.0) == pytest.approx(0.9)
    assert one_step(O.SGD(0.1, l1=0.5), [-2.0], [0.0], decay_mult=2.0) == pytest.approx(-1.9)
    assert one_step(O.SGD(0.1, weight_decay=0.5, l2=0.5, l1=0.5), [1.0], [0.0], decay_mult=0.0) == 1.0


def test_coupled_decay_is_not_clipped_and_goes_through_the_momentum():
    # Caffe: clip, then add decay * w, then the momentum; v = -lr * (g + l2 * w)
    assert one_step(O.SGD(0.1, momentum=0.9, l2=1.0, clipvalue=0.5), [2.0], [0.5]) == pytest.approx(2 - 0.1 * 2.5)
    # and with regularization_type: "L1" it adds decay * sign(w)
    assert one_step(O.SGD(0.1, momentum=0.9, l1=1.0, clipvalue=0.5), [2.0], [0.5]) == pytest.approx(2 - 0.1 * 1.5)


def test_clipping_leaves_small_gradients_as_they_are():
    grads = [tensor(np.float32([0.3, 0.4])), tensor(np.float32([0.0]))]
    for fields in ({"clipnorm": 0.5}, {"global_clipnorm": 0.5}, {"clipvalue": 0.4}):
        kept = O.SGD(0.1, **fields).clip(grads)
        assert [k.numpy().tolist() for k in kept] == [g.numpy().tolist() for g in grads]
    assert O.SGD(0.1, global_clipnorm=1.0).clip([]) == []


def test_gradients_that_are_zero_do_not_divide_by_zero():
    for cls in O.Optimizer.members().values():
        for fields in ({}, {"clipnorm": 1.0}, {"global_clipnorm": 1.0}):
            optimizer = cls(learning_rate=0.1, **fields)
            (grad,) = optimizer.clip([tensor(np.zeros(2, np.float32))])
            assert np.isfinite(one_step(optimizer, [1.0, 2.0], grad.numpy())).all(), cls


def test_a_gradient_that_is_not_finite_stays_so():
    for fields in ({"clipnorm": 1.0}, {"global_clipnorm": 1.0}, {"clipvalue": 1.0}):
        (kept,) = O.SGD(0.1, **fields).clip([tensor(np.float32([np.nan, 1.0]))])
        assert np.isnan(kept.numpy()).any()


def test_slots_are_only_those_needed():
    weight = WeightSpec("layer/kernel", Spec((2, 3)), Zeros(), (1, 1))
    names = {
        repr(o): list(o.initial_slots(weight))
        for o in (
            O.SGD(),
            O.SGD(momentum=0.9),
            O.Adam(),
            O.Adam(amsgrad=True),
            O.RMSprop(),
            O.RMSprop(momentum=0.9),
            O.RMSprop(centered=True),
            O.Lion(use_ema=True),
        )
    }
    assert list(names.values()) == [
        [], ["momentum"], ["momentum", "velocity"], ["momentum", "velocity", "velocity_hat"],
        ["velocity"], ["velocity", "momentum"], ["velocity", "momentum", "average_gradient"], ["momentum", "average"],
    ]  # fmt: skip


def test_the_learning_rate_comes_first():
    for cls in O.Optimizer.members().values():
        assert next(iter(cls.specs())) == "learning_rate"
        assert cls(0.25).learning_rate == 0.25
    assert O.AdamW(1e-3, 0.01).weight_decay == 0.01


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: O.SGD(-0.1), "SGD.learning_rate must be"),
        (lambda: O.SGD(0.1, momentum=1.5), "SGD.momentum must be a number of at least 0 and at most 1"),
        (lambda: O.SGD(0.1, nesterow=True), "Did you mean 'nesterov'?"),
        (lambda: O.Adam(beta_1=1.0), "Adam.beta_1 must be a number of at least 0 and below 1"),
        (lambda: O.Adam(clipnorm=1.0, clipvalue=1.0), "only one of clipnorm and clipvalue can be given"),
        (lambda: O.Adam(clipnorm=0.0), "Adam.clipnorm must be a number above 0"),
        (lambda: O.Adam(learning_rate="fast"), "Adam.learning_rate must be"),
        (lambda: O.Optimizer.lookup("adamm"), "Did you mean 'adam'?"),
        (lambda: S.Schedule.lookup("cosin"), "Did you mean 'cosine'?"),
    ],
)
def test_messages(make, words):
    with pytest.raises(UsageError) as caught:
        make()
    assert words in str(caught.value)


def test_every_member_has_examples_and_documented_fields():
    for cls in MEMBERS:
        assert cls.examples, cls
        assert cls.__doc__
        assert all(spec.doc for spec in cls.specs().values()), cls


def test_fields_round_trip():
    for made in (O.SGD(0.1, momentum=0.9), O.Adam(S.Warmup(S.CosineDecay(0.1, 100), 10)), O.AdamW(clipnorm=1.0)):
        report = Report()
        assert type(made).from_fields(made.to_fields(), report) == made
        assert not len(report)
