"""What metrics promise beyond Keras' numbers: their examples, the words, exact counts, odd values, messages."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch import losses as L
from prototorch import metrics as M
from prototorch import tensor
from prototorch.errors import ShapeError, UsageError
from prototorch.metrics.generic_names import resolve_metric
from prototorch.spec import Spec
from prototorch.text.diagnostics import Report
from prototorch.text.reader import parse
from prototorch.train.config import Compile

EXAMPLES = [(cls, e) for cls in M.Metric.members().values() for e in cls.examples]
RNG = np.random.default_rng(3)


def made(text):
    (field,) = parse(text, "example").fields
    report = Report()
    metric = M.Metric.lookup(field.name).from_fields(field.value.fields, report, field.name_span)
    report.raise_if_any()
    return metric


def measured(metric, target, output, weight=None, batches=1):
    output = np.asarray(output, np.float32)
    weight = np.ones(len(output)) if weight is None else weight
    states = {n: tensor(np.zeros(s.shape, s.dtype)) for n, s in metric.states(Spec(output.shape)).items()}
    for _ in range(batches):
        states = metric.update(states, tensor(target), tensor(output), tensor(np.asarray(weight, np.float32)))
    return metric.result({n: s.numpy() for n, s in states.items()})


@pytest.mark.parametrize(("cls", "example"), EXAMPLES, ids=[e.text for _, e in EXAMPLES])
def test_example(cls, example):
    metric = made(example.text)
    assert type(metric) is cls
    output = RNG.uniform(0.1, 0.9, size=(6, *example.inputs[0]))
    axis = getattr(metric, "axis", -1)
    classes = output.shape[axis]
    if metric.target_kind == "classes" or cls is M.SparseCategoricalCrossentropy:
        shape = [n for i, n in enumerate(output.shape) if i != axis % output.ndim]
        target = RNG.integers(0, classes, size=shape)
    else:
        target = np.eye(classes)[RNG.integers(0, classes, size=output.shape[:-1])]
    result = np.asarray(measured(metric, target, output))
    assert np.isfinite(result).all()
    # the same batch again changes no mean
    np.testing.assert_allclose(
        measured(metric, target, output, batches=3), result * (3 if cls is M.ConfusionMatrix else 1)
    )
    report = Report()
    assert cls.from_fields(metric.to_fields(), report) == metric
    assert not len(report)


def test_every_metric_has_examples_and_documented_fields():
    for cls in M.Metric.members().values():
        assert cls.examples or cls is M.FunctionMetric, cls  # which a text cannot hold
        assert cls.__doc__
        assert all(spec.doc for spec in cls.specs().values()), cls


def test_a_name_can_be_given():
    assert M.AUC().name == "auc"
    assert M.AUC(name="area").name == "area"
    assert M.AUC(name="area").replace(curve="PR").name == "area"
    assert M.AUC() == M.AUC(name="")
    assert M.LossMetric("huber").name == "huber"
    assert [f.name for f in M.AUC(name="area").to_fields()] == ["name"]


Sparse, Categorical, Binary = L.SparseCategoricalCrossentropy, L.CategoricalCrossentropy, L.BinaryCrossentropy
WORDS = [
    ("accuracy", Sparse(), (8, 5), M.SparseCategoricalAccuracy()),
    ("acc", Sparse(from_logits=True), (8, 5), M.SparseCategoricalAccuracy()),
    ("accuracy", Sparse(axis=1), (8, 5, 4, 4), M.SparseCategoricalAccuracy(axis=1)),
    ("accuracy", Categorical(), (8, 5), M.CategoricalAccuracy()),
    ("accuracy", Categorical(axis=1), (8, 5, 4, 4), M.CategoricalAccuracy(axis=1)),
    ("accuracy", Binary(), (8, 1), M.BinaryAccuracy(threshold=0.5)),
    ("accuracy", Binary(from_logits=True), (8, 1), M.BinaryAccuracy(threshold=0.0)),
    ("accuracy", Binary(from_logits=True), (8, 5), M.BinaryAccuracy(threshold=0.0)),
    ("accuracy", L.MeanSquaredError(), (8, 1), M.BinaryAccuracy(threshold=0.5)),
    ("accuracy", L.MeanSquaredError(), (8, 5), M.CategoricalAccuracy()),
    ("accuracy", None, (8, 5), M.CategoricalAccuracy()),
    ("crossentropy", Sparse(from_logits=True), (8, 5), M.SparseCategoricalCrossentropy(from_logits=True)),
    ("ce", Categorical(), (8, 5), M.CategoricalCrossentropy()),
    ("ce", Binary(from_logits=True), (8, 1), M.BinaryCrossentropy(from_logits=True)),
    ("mse", None, (8, 5), M.MeanSquaredError()),
]


@pytest.mark.parametrize(("word", "loss", "shape", "want"), WORDS)
def test_words(word, loss, shape, want):
    assert resolve_metric(word, loss, Spec(shape)) == want


def test_a_word_that_is_no_metric():
    with pytest.raises(UsageError, match="Did you mean 'recall'"):
        resolve_metric("recal", None, Spec((8, 5)))


def test_counts_stay_exact_past_what_float32_holds():
    metric = M.SparseCategoricalAccuracy()
    totals = {"total": tensor(np.float64(10**8)), "count": tensor(np.float64(10**8 + 1))}
    one = metric.update(totals, tensor([0]), tensor(np.float32([[2.0, 1.0]])), tensor(np.float32([1.0])))
    assert (one["total"].item(), one["count"].item()) == (10**8 + 1, 10**8 + 2)


def test_nothing_measured_is_zero():
    for metric in (M.BinaryAccuracy(), M.Precision(), M.Recall(), M.AUC(), M.F1Score("macro"), M.MeanIoU()):
        arrays = {n: np.zeros(s.shape, s.dtype) for n, s in metric.states(Spec((4, 3))).items()}
        assert metric.result(arrays) == 0


def test_samples_of_weight_zero_do_not_count():
    output, target = [[0.9, 0.1], [0.9, 0.1]], [0, 1]
    assert measured(M.SparseCategoricalAccuracy(), target, output) == 0.5
    assert measured(M.SparseCategoricalAccuracy(), target, output, [1, 0]) == 1
    assert measured(M.ConfusionMatrix(), target, output, [1, 0]).tolist() == [[1, 0], [0, 0]]


def test_outputs_that_are_not_numbers_are_never_right():
    nothing = np.full((2, 5), np.nan)
    assert measured(M.SparseTopKCategoricalAccuracy(2), [0, 1], nothing) == 0
    assert measured(M.TopKCategoricalAccuracy(5), np.eye(5)[:2], nothing) == 0
    assert measured(M.BinaryAccuracy(), np.ones((2, 5)), nothing) == 0
    assert measured(M.Precision(), np.ones((2, 5)), nothing) == 0
    assert measured(M.AUC(), np.ones((2, 5)), nothing) == 0
    assert measured(M.AUC(thresholds=[0.5]), np.ones((2, 5)), nothing) == 0
    assert np.isnan(measured(M.MeanSquaredError(), np.ones((2, 5)), nothing))


def test_confusion_matrix():
    output = np.eye(3)[[0, 1, 1, 2, 0]]
    matrix = measured(M.ConfusionMatrix(), [0, 1, 2, 2, 1], output)
    assert matrix.tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    # by hand: intersections 1, 1, 1; unions 2, 3, 2
    assert measured(M.MeanIoU(), [0, 1, 2, 2, 1], output) == pytest.approx((1 / 2 + 1 / 3 + 1 / 2) / 3)


def test_a_label_outside_the_classes_is_not_counted():
    assert measured(M.ConfusionMatrix(), [0, 7, -1], np.eye(3)).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_area_of_each_label():
    output, target = RNG.uniform(size=(64, 3)), RNG.integers(0, 2, size=(64, 3)).astype(float)
    each = [measured(M.AUC(), target[:, i], output[:, i]) for i in range(3)]
    assert measured(M.AUC(multi_label=True), target, output) == pytest.approx(np.mean(each))
    weighted = measured(M.AUC(multi_label=True, label_weights=[1, 2, 3]), target, output)
    assert weighted == pytest.approx(np.average(each, weights=[1, 2, 3]))
    # weights of labels without multi_label weigh every answer, as repeating them would
    repeated = measured(
        M.AUC(), np.r_[target[:, 0], target[:, 1], target[:, 1]], np.r_[output[:, 0], output[:, 1], output[:, 1]]
    )
    assert measured(M.AUC(label_weights=[1, 2]), target[:, :2], output[:, :2]) == pytest.approx(repeated)


def test_area_of_a_perfect_and_of_a_wrong_order():
    output, target = np.linspace(0, 1, 40)[:, None], (np.arange(40) >= 20).astype(float)[:, None]
    assert measured(M.AUC(), target, output) == pytest.approx(1)
    assert measured(M.AUC(), 1 - target, output) == pytest.approx(0)
    assert measured(M.AUC(curve="PR"), target, output) == pytest.approx(1)


@pytest.mark.parametrize(
    ("metric", "target", "output", "words"),
    [
        (M.SparseCategoricalAccuracy(), (6, 5), (6, 5), "it looks like one-hot targets"),
        (M.CategoricalAccuracy(), (6,), (6, 5), "it looks like class indices"),
        (M.MeanSquaredError(), (6, 2), (6, 1), "MeanSquaredError expected a target of shape [6, 1]"),
        (M.BinaryAccuracy(), (6, 2), (6, 1), "the output has 1 units, the target 2"),
        (M.Precision(), (6,), (6, 5), "it looks like class indices"),
        (M.F1Score(), (6, 4, 5), (6, 4, 5), "F1Score expected an output [batch, classes]"),
        (M.AUC(multi_label=True), (6,), (6,), "AUC with multi_label expected an output [batch, labels]"),
        (M.AUC(label_weights=[1, 2]), (6, 3), (6, 3), "AUC has 2 label_weights for an output of shape [6, 3]"),
        (M.Recall(class_id=5), (6, 5), (6, 5), "there is no class 5 in an output of shape [6, 5]"),
    ],
)
def test_messages(metric, target, output, words):
    with pytest.raises(ShapeError) as caught:
        measured(metric, np.zeros(target), np.zeros(output))
    assert words in str(caught.value)


BARE = [c() for c in M.Metric.members().values() if not any(s.required for s in c.specs().values())]


@pytest.mark.parametrize("metric", [*BARE, M.Precision(thresholds=[0.5]), M.Recall(thresholds=0.5)], ids=repr)
def test_a_metric_is_the_same_after_a_text(metric):
    block = Compile(loss="mse", metrics=[metric])
    report = Report()
    again = Compile.from_fields(block.to_fields(), report)
    report.raise_if_any()
    assert again == block
    assert again.metrics[0].type.name == metric.name


@pytest.mark.parametrize(("activation", "threshold"), [("sigmoid", 0.5), ("linear", 0.0)])
def test_one_unit_is_two_classes(activation, threshold):
    """The likeliest class of one unit would always be class 0: a perfect score for anything."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((60, 3)).astype("float32"), rng.integers(0, 2, 60)
    model = pt.Sequential([pt.Input((3,)), pt.layers.Dense(1, activation)])
    metrics = [pt.metrics.MeanIoU(threshold=threshold), pt.metrics.ConfusionMatrix(threshold=threshold)]
    model.compile("sgd", pt.losses.BinaryCrossentropy(from_logits=activation == "linear"), metrics)
    results = model.evaluate(x, y)
    predicted = model.predict(x)[:, 0] > threshold
    matrix = np.array([[((y == t) & (predicted == p)).sum() for p in (0, 1)] for t in (0, 1)])
    assert np.array_equal(results["confusion_matrix"], matrix)
    right = np.diag(matrix)
    assert results["mean_io_u"] == pytest.approx((right / (matrix.sum(0) + matrix.sum(1) - right)).mean())
