"""Every schedule equals Keras', at every step of a long training; those Keras has not, their formula."""

from __future__ import annotations

import math
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import pytest

from prototorch.errors import UsageError
from prototorch.optimizers import schedules as S

K = keras.optimizers.schedules
CASES = [
    (S.ExponentialDecay(0.1, 10, 0.9), K.ExponentialDecay(0.1, 10, 0.9)),
    (S.ExponentialDecay(0.1, 10, 0.9, staircase=True), K.ExponentialDecay(0.1, 10, 0.9, staircase=True)),
    (S.StepDecay(0.1, 10, 0.5), K.ExponentialDecay(0.1, 10, 0.5, staircase=True)),
    (S.PiecewiseConstantDecay([10, 25], [0.1, 0.05, 0.01]), K.PiecewiseConstantDecay([10, 25], [0.1, 0.05, 0.01])),
    (S.PiecewiseConstantDecay([], [0.1]), None),
    (S.PolynomialDecay(0.1, 20), K.PolynomialDecay(0.1, 20)),
    (S.PolynomialDecay(0.1, 20, 0.01, power=2.0), K.PolynomialDecay(0.1, 20, 0.01, power=2.0)),
    (S.PolynomialDecay(0.1, 15, 0.01, cycle=True), K.PolynomialDecay(0.1, 15, 0.01, cycle=True)),
    (S.InverseTimeDecay(0.1, 10, 0.5), K.InverseTimeDecay(0.1, 10, 0.5)),
    (S.InverseTimeDecay(0.1, 10, 0.5, staircase=True), K.InverseTimeDecay(0.1, 10, 0.5, staircase=True)),
    (S.CosineDecay(0.1, 30), K.CosineDecay(0.1, 30)),
    (S.CosineDecay(0.1, 30, alpha=0.1), K.CosineDecay(0.1, 30, alpha=0.1)),
    (
        S.CosineDecay(0.01, 30, 0.1, warmup_target=0.2, warmup_steps=8),
        K.CosineDecay(0.01, 30, 0.1, warmup_target=0.2, warmup_steps=8),
    ),
    (S.CosineDecayRestarts(0.1, 7), K.CosineDecayRestarts(0.1, 7)),
    (S.CosineDecayRestarts(0.1, 7, 1.0, 0.5, 0.05), K.CosineDecayRestarts(0.1, 7, 1.0, 0.5, 0.05)),
    (S.CosineDecayRestarts(0.1, 5, 1.5, 0.9), K.CosineDecayRestarts(0.1, 5, 1.5, 0.9)),
]
STEPS = range(60)


def test_every_schedule_is_compared():
    here = {S.ConstantSchedule, S.Warmup}  # Keras has none; their tests are below
    here |= {S.InversePowerDecay, S.SigmoidSchedule}  # Caffe's: tests/caffe/test_caffe_solver_fields.py
    assert {type(ours) for ours, _ in CASES} | here == set(S.Schedule.members().values())


@pytest.mark.parametrize(("ours", "theirs"), CASES, ids=[repr(ours) for ours, _ in CASES])
def test_schedule_equals_keras(ours, theirs):
    for step in STEPS:
        want = 0.1 if theirs is None else float(theirs(step))
        # Keras computes in float32, some of it by logarithms
        assert ours.value(step) == pytest.approx(want, rel=2e-4, abs=1e-6), step
        assert ours(step) == ours.value(step)


def test_a_restart_lies_exactly_on_its_step():
    schedule = S.CosineDecayRestarts(0.1, 5, t_mul=2.0)
    assert [s for s in range(200) if schedule.value(s) == 0.1] == [0, 5, 15, 35, 75, 155]


def test_warmup_rises_to_where_the_schedule_begins():
    schedule = S.Warmup(S.StepDecay(0.1, step_size=10, gamma=0.5), steps=4)
    assert [schedule.value(s) for s in range(5)] == pytest.approx([0.0, 0.025, 0.05, 0.075, 0.1])
    assert [schedule.value(s) for s in (13, 14, 23, 24)] == pytest.approx([0.1, 0.05, 0.05, 0.025])


def test_warmup_around_a_number():
    schedule = S.Warmup(0.2, steps=2, start=0.1)
    same = S.Warmup(S.ConstantSchedule(0.2), steps=2, start=0.1)
    for made in (schedule, same):
        assert [made.value(s) for s in range(4)] == pytest.approx([0.1, 0.15, 0.2, 0.2])


def test_a_schedule_works_far_out():
    for ours, _ in CASES:
        assert 0 <= ours.value(10**9) <= 0.2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: S.ExponentialDecay(0.1, 0, 0.9), "decay_steps must be an integer of at least 1"),
        (lambda: S.PiecewiseConstantDecay([10], [0.1]), "1 boundaries need 2 values, got 1"),
        (lambda: S.PiecewiseConstantDecay([20, 10], [0.1, 0.2, 0.3]), "boundaries must be ascending, got [20, 10]"),
        (lambda: S.CosineDecay(0.1, 10, warmup_steps=5), "warmup_steps needs a warmup_target"),
        (lambda: S.Warmup(0.1), "Warmup needs 'steps'"),
    ],
)
def test_messages(make, words):
    with pytest.raises(UsageError) as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.parametrize("factor", [1.0 + 1e-9, 1.0001, 1.5, 2.0, 3.0])
def test_restarts_are_where_the_decays_end(factor):
    schedule = S.CosineDecayRestarts(0.1, 5, t_mul=factor)
    begin, length, ends = 0.0, 5.0, []
    while begin < 3000:
        begin, length = begin + length, length * factor
        ends.append(begin)
    for end in ends:
        first = math.ceil(end - 1e-9)
        assert schedule(first) > 0.05 > schedule(first - 1)


def test_restarts_after_many_steps_take_no_time_and_a_growing_height_no_traceback():
    assert 0 <= S.CosineDecayRestarts(0.1, 1, t_mul=1.0 + 1e-12)(10**12) <= 0.1
    assert S.CosineDecayRestarts(0.1, 1, t_mul=1.0, m_mul=1e300)(5.5) == math.inf
