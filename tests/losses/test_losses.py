"""What losses promise beyond Keras' numbers: examples, derivatives in float64, shapes refused, odd values."""

from __future__ import annotations

import numpy as np
import pytest

from prototorch import grad, ops, tensor
from prototorch import losses as L
from prototorch.errors import ShapeError, UsageError
from prototorch.spec import Spec
from prototorch.text.diagnostics import Report
from prototorch.text.reader import parse

EXAMPLES = [(cls, e) for cls in L.Loss.members().values() for e in cls.examples]
IDS = [e.text for _, e in EXAMPLES]
RNG = np.random.default_rng(5)


def made(text):
    (field,) = parse(text, "example").fields
    report = Report()
    loss = L.Loss.lookup(field.name).from_fields(field.value.fields, report, field.name_span)
    report.raise_if_any()
    return loss


def data(loss, shape, batch=4):
    output = RNG.uniform(0.1, 0.9, size=(batch, *shape))
    spec = loss.target_spec(Spec(output.shape, "float64"))
    if loss.target_kind == "classes":
        return output, RNG.integers(0, output.shape[loss.class_axis], size=spec.shape)
    if loss.target_kind == "one_hot":
        hot = np.eye(spec.shape[loss.class_axis])[RNG.integers(0, spec.shape[loss.class_axis], size=spec.shape[:1])]
        return output, np.zeros(spec.shape) + np.moveaxis(
            hot.reshape(batch, *[1] * (len(shape) - 1), -1), -1, loss.class_axis
        )
    if loss.target_kind == "binary":
        return output, RNG.integers(0, 2, size=spec.shape).astype(float)
    return output, RNG.uniform(1.0, 2.0, size=spec.shape)


def total(loss, target, output):
    return ops.sum(loss.per_sample_loss(tensor(target), output) * tensor(np.arange(1.0, len(target) + 1)))


@pytest.mark.parametrize(("cls", "example"), EXAMPLES, ids=IDS)
def test_example(cls, example):
    loss = made(example.text)
    assert type(loss) is cls
    output, target = data(loss, example.inputs[0])
    each = loss.per_sample_loss(tensor(target), tensor(output)).numpy()
    assert each.shape == (4,)
    if getattr(loss, "ignore_class", None) is None:  # that one looks at the whole batch
        alone = [
            loss.per_sample_loss(tensor(t[None]), tensor(o[None])).item() for t, o in zip(target, output, strict=True)
        ]
        np.testing.assert_allclose(each, alone, rtol=1e-12)
    report = Report()
    assert cls.from_fields(loss.to_fields(), report) == loss
    assert not len(report)


@pytest.mark.parametrize(("cls", "example"), EXAMPLES, ids=IDS)
def test_derivatives_in_float64(cls, example):
    loss = made(example.text)
    output, target = data(loss, example.inputs[0])
    along, h = RNG.normal(size=output.shape), 1e-5

    def slope(at):
        x = tensor(at, requires_grad=True)
        (g,) = grad(total(loss, target, x), [x], create_graph=True)
        return x, ops.sum(g * tensor(along))

    x, first = slope(output)
    numeric = (
        total(loss, target, tensor(output + h * along)).item() - total(loss, target, tensor(output - h * along)).item()
    ) / (2 * h)
    # central differences: h^2 of truncation, 1e-16 / h of rounding
    np.testing.assert_allclose(first.item(), numeric, rtol=1e-6, atol=1e-8)
    second = ops.sum(grad(first, [x], materialize_grads=True)[0] * tensor(along)).item() if first.requires_grad else 0.0
    numeric = (slope(output + h * along)[1].item() - slope(output - h * along)[1].item()) / (2 * h)
    np.testing.assert_allclose(second, numeric, rtol=1e-5, atol=1e-6)


def test_every_loss_has_examples_and_documented_fields():
    for cls in L.Loss.members().values():
        assert cls.examples or cls is L.FunctionLoss, cls  # which a text cannot hold
        assert cls.__doc__
        assert all(spec.doc for spec in cls.specs().values()), cls


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("mse", L.MeanSquaredError), ("mae", L.MeanAbsoluteError), ("mape", L.MeanAbsolutePercentageError),
        ("msle", L.MeanSquaredLogarithmicError), ("huber", L.Huber), ("log_cosh", L.LogCosh), ("logcosh", L.LogCosh),
        ("kl_divergence", L.KLDivergence), ("kld", L.KLDivergence), ("poisson", L.Poisson), ("hinge", L.Hinge),
        ("squared_hinge", L.SquaredHinge), ("categorical_hinge", L.CategoricalHinge),
        ("cosine_similarity", L.CosineSimilarity), ("binary_crossentropy", L.BinaryCrossentropy),
        ("categorical_crossentropy", L.CategoricalCrossentropy),
        ("sparse_categorical_crossentropy", L.SparseCategoricalCrossentropy), ("contrastive_loss", L.ContrastiveLoss),
    ],
)  # fmt: skip
def test_names(name, cls):
    assert L.Loss.lookup(name) is cls


REFUSED = [
    # a person's mistake; what the message must say
    (L.MeanSquaredError(), (6, 2), (6, 1), "expected a target of shape [6, 1]", "the output has 1 units, the target 2"),
    (L.MeanSquaredError(), (6, 1), (6, 2), "got [6, 1]", "the output has 2 units, the target 1"),
    (L.MeanSquaredError(), (6,), (6, 2), "got [6]", "the output has 2 units, the target 1"),
    (L.MeanAbsoluteError(), (1, 3), (6, 3), "got [1, 3]", "there are 1 targets for 6 samples"),
    (L.MeanAbsoluteError(), (6, 6), (6,), "got [6, 6]", ""),
    (L.Huber(), (6, 1, 3), (6, 4, 3), "got [6, 1, 3]", ""),
    (
        L.SparseCategoricalCrossentropy(),
        (6,),
        (6, 1),
        "a single unit cannot distinguish classes",
        "or use BinaryCrossentropy",
    ),
    (
        L.SparseCategoricalCrossentropy(),
        (6, 5),
        (6, 5),
        "expected a target of shape [6]",
        "CategoricalCrossentropy takes",
    ),
    (L.SparseCategoricalCrossentropy(), (6, 3), (6, 5), "got [6, 3]", "the output has 5 units, the target 3"),
    (L.SparseCategoricalCrossentropy(), (6,), (6,), "its axes without that of the batch are 1 to 0", ""),
    (L.SparseCategoricalCrossentropy(axis=2), (6,), (6, 5), "its axes without that of the batch are 1 to", ""),
    (
        L.CategoricalCrossentropy(),
        (6,),
        (6, 5),
        "expected a target of shape [6, 5]",
        "SparseCategoricalCrossentropy takes",
    ),
    (L.CategoricalCrossentropy(), (6, 1), (6, 5), "got [6, 1]", "it looks like class indices"),
    (L.CategoricalCrossentropy(), (6, 4), (6, 5), "got [6, 4]", "change the last layer or the target"),
    (L.CategoricalCrossentropy(), (6, 1), (6, 1), "a single unit cannot distinguish classes", ""),
    (L.BinaryCrossentropy(), (6, 2), (6, 1), "got [6, 2]", "the output has 1 units, the target 2"),
    (L.BinaryCrossentropy(), (6,), (6, 5), "got [6]", "it looks like class indices"),
    (L.ContrastiveLoss(), (6,), (6, 2), "cannot take an output of shape [6, 2]", "one distance per pair"),
]


@pytest.mark.parametrize(("loss", "target", "output", "words", "hint"), REFUSED)
def test_shapes_are_never_broadcast(loss, target, output, words, hint):
    with pytest.raises(ShapeError) as caught:
        loss.per_sample_loss(tensor(np.zeros(target, np.int64)), tensor(np.zeros(output, np.float32)))
    message = str(caught.value)
    assert message.startswith(type(loss).__name__)
    assert words in message
    assert hint in message


def test_an_axis_of_one_at_the_end_is_no_mistake():
    for target, output in (((6,), (6, 1)), ((6, 1), (6,)), ((6, 4), (6, 4, 1))):
        L.MeanSquaredError().per_sample_loss(tensor(np.zeros(target, np.float32)), tensor(np.zeros(output, np.float32)))
    L.SparseCategoricalCrossentropy().per_sample_loss(tensor(np.zeros((6, 1))), tensor(np.ones((6, 3), np.float32)))


def test_large_logits_stay_finite():
    x = tensor(np.float32([[1e4, -1e4], [-1e4, 1e4]]), requires_grad=True)
    for loss, target in (
        (L.SparseCategoricalCrossentropy(True), [0, 0]),
        (L.CategoricalCrossentropy(True), [[1, 0], [1, 0]]),
        (L.BinaryCrossentropy(True), [[1, 0], [1, 0]]),
    ):
        value = loss.per_sample_loss(tensor(target), x)
        np.testing.assert_allclose(value.numpy(), [0, 2e4 if loss.target_kind != "binary" else 1e4])
        assert np.isfinite(grad(value.sum(), [x])[0].numpy()).all()


def test_zero_logits_have_the_right_gradient():
    """The first step of a net whose last layer begins with zeros."""
    x = tensor(np.zeros((1, 1), np.float32), requires_grad=True)
    for target, want in ((1.0, -0.5), (0.0, 0.5)):
        value = L.BinaryCrossentropy(True).per_sample_loss(tensor([[target]]), x)
        assert grad(value.sum(), [x])[0].item() == want


def test_a_probability_of_zero_or_one_costs_what_keras_says():
    value = L.BinaryCrossentropy().per_sample_loss(tensor([[1.0], [0.0]]), tensor(np.float32([[0.0], [0.0]]))).numpy()
    np.testing.assert_allclose(value, [-np.log(1e-7), 0], rtol=1e-6, atol=2e-7)


def test_what_is_not_a_number_stays_so():
    output = np.full((2, 3), np.nan, np.float32)
    for loss in (
        L.MeanSquaredError(),
        L.MeanAbsoluteError(),
        L.Huber(),
        L.BinaryCrossentropy(True),
        L.Hinge(),
        L.BinaryCrossentropy(),
    ):
        assert np.isnan(loss.per_sample_loss(tensor(np.ones((2, 3), np.float32)), tensor(output)).numpy()).all(), loss
    for loss in (L.SparseCategoricalCrossentropy(True), L.SparseCategoricalCrossentropy()):
        assert np.isnan(loss.per_sample_loss(tensor([0, 1]), tensor(output)).numpy()).all()


def test_all_ignored_is_no_loss():
    loss = L.SparseCategoricalCrossentropy(True, ignore_class=0)
    value = loss.per_sample_loss(tensor([[0, 0]]), tensor(np.ones((1, 2, 3), np.float32)))
    assert value.item() == 0


def test_contrastive_by_hand():
    like, unlike = [1.0, 1.0], [0.0, 0.0]
    distance = tensor(np.float32([0.5, 3.0]))
    loss = L.ContrastiveLoss(margin=2.0)
    np.testing.assert_allclose(loss.per_sample_loss(tensor(like), distance).numpy(), [0.125, 4.5])
    np.testing.assert_allclose(loss.per_sample_loss(tensor(unlike), distance).numpy(), [0.5 * 1.5**2, 0])
    legacy = L.ContrastiveLoss(margin=2.0, legacy_version=True)
    np.testing.assert_allclose(legacy.per_sample_loss(tensor(unlike), distance).numpy(), [0.5 * (2 - 0.25), 0])


def test_soft_targets_are_distributions():
    with pytest.raises(UsageError, match="label_smoothing must be a number of at least 0 and at most 1"):
        L.CategoricalCrossentropy(label_smoothing=1.5)


def test_target_specs():
    output = Spec((8, 5, 4, 3))
    assert L.SparseCategoricalCrossentropy(axis=1).target_spec(output) == Spec((8, 4, 3), "int32")
    assert L.SparseCategoricalCrossentropy().target_spec(output) == Spec((8, 5, 4), "int32")
    assert L.CategoricalCrossentropy(axis=1).target_spec(output) == output
    assert L.MeanSquaredError().target_spec(output) == output
