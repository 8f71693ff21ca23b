"""Batches of texts of similar lengths: each sample once, less padding, the same after a resumption; they train."""

import re

import numpy as np
import pytest

import prototorch as pt
from prototorch.data.loader import Loader
from prototorch.data.token_dataset import TokenDataset, TokenSequences
from prototorch.errors import DataError, UsageError
from prototorch.model.load import model_from_text

NET = """
input { name: "text"  shape: [none]  dtype: int32 }
preprocess { TextVectorization { } }
Embedding { input_dim: 40  output_dim: 6  mask_zero: true }
GRU { units: 8 }
Dense { units: 2 }
compile {
  loss: sparse_categorical_crossentropy { from_logits: true }
  optimizer: Adam { learning_rate: 0.03 }
  metrics: [accuracy]
}
"""


def dataset(count=97, seed=0):
    rng = np.random.default_rng(seed)
    rows = [rng.integers(1, 30, n).tolist() for n in rng.integers(0, 33, count)]
    sequences = {"text": TokenSequences(rows), "other": TokenSequences([row[:5] for row in rows])}
    return TokenDataset(sequences, {"label": np.arange(count)}, ["text"], ["label"]), rows


def batches(loader):
    return [({k: v.copy() for k, v in b.items()}, b.context.position) for b in loader]


def same(a, b):
    assert [p for _, p in a] == [p for _, p in b]
    for (x, _), (y, _) in zip(a, b, strict=True):
        assert all(np.array_equal(x[k], y[k]) for k in x)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("threads", [0, 3])
def test_each_sample_is_in_one_batch_of_its_length(shuffle, drop_last, threads):
    data, rows = dataset()
    options = {"shuffle": shuffle, "drop_last": drop_last, "buckets": [4, 8, 16], "threads": threads}
    loader = Loader(data, 8, **options)
    count, seen = len(loader), []
    made = batches(loader)
    assert len(made) == count
    for columns, _ in made:
        text, labels = columns["text"], columns["label"]
        assert text.shape[1] in (4, 8, 16, 32)
        assert columns["other"].shape[1] == min(text.shape[1], 5)
        assert len(labels) == 8 or (text.shape[1] == 32 and not drop_last)
        for row, label in zip(text, labels, strict=True):
            assert row[row != 0].tolist() == rows[label]
            seen.append(int(label))
    assert len(set(seen)) == len(seen) == (96 if drop_last else 97)
    same(made, batches(Loader(data, 8, **{**options, "threads": 1})))


def test_there_is_less_padding():
    data, rows = dataset(2000)
    plain = sum(b["text"].size for b in Loader(data, 16))
    bucketed = sum(b["text"].size for b in Loader(data, 16, buckets=[8, 16, 24]))
    tokens = sum(map(len, rows))
    assert bucketed - tokens < 0.35 * (plain - tokens)


def test_epochs_differ_and_their_batches_are_mixed():
    data, _ = dataset(400)
    loader = Loader(data, 8, buckets=[8, 16, 24])
    first, second = batches(loader), batches(loader)
    lengths = [b["text"].shape[1] for b, _ in first]
    assert lengths != sorted(lengths)
    assert [b["label"].tolist() for b, _ in first] != [b["label"].tolist() for b, _ in second]


@pytest.mark.parametrize("stop", [0, 1, 5, 12])
def test_a_resumed_epoch_goes_on_with_the_same_batches(stop):
    data, _ = dataset()
    whole = batches(Loader(data, 8, buckets=[8, 16], seed=3, epoch=2))
    loader = Loader(data, 8, buckets=[8, 16], seed=3, epoch=2)
    for number, _ in enumerate(loader):
        if number + 1 >= stop:
            break
    state = loader.state()
    again = Loader(data, 8, buckets=[8, 16])
    again.restore(state)
    same(batches(again), whole[max(stop, 1) :])
    with pytest.raises(DataError, match=re.escape("buckets was [8, 16, 32] and is now []")):
        Loader(data, 8).restore(state)


def test_a_model_of_any_length_is_trained_and_resumed(tmp_path):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(["up", "down"], n)) for n in rng.integers(1, 20, 96)]
    rows = [f"{t}\t{'odd' if t.startswith('up') else 'even'}\n" for t in texts]
    (tmp_path / "texts.tsv").write_text("text\tkind\n" + "".join(rows))
    data = pt.Data(source=str(tmp_path / "texts.tsv"), label="kind", buckets=[5, 10])

    def train(epochs, model=None):
        model = model or model_from_text(NET)
        history = model.fit(data, epochs=epochs, batch_size=16, verbose=0)
        return model, history.history

    whole, history = train(20)
    assert history["accuracy"][-1] > 0.95
    part, _ = train(1)
    part.save(tmp_path / "part.h5")
    model = pt.load_model(tmp_path / "part.h5", allow_read=tmp_path)
    model.fit(data, epochs=2, batch_size=16, verbose=0, resume=True)
    expected, _ = train(2)
    for name, weight in expected.weights.items():
        assert np.array_equal(model.weights[name], weight), name
    assert whole.predict(["up down"]).shape == (1, 2)


@pytest.mark.parametrize(
    ("buckets", "error", "message"),
    [
        ([8, 8], UsageError, "must rise"),
        ([0, 4], UsageError, "at least 1"),
        ([1.5], UsageError, "at least 1"),
        (range(1, 70), UsageError, "at most 64 are possible"),
    ],
)
def test_boundaries_that_are_none_are_named(buckets, error, message):
    with pytest.raises(error, match=message):
        Loader(dataset()[0], 8, buckets=list(buckets))


def test_buckets_are_for_sequences_and_inputs_of_any_length(tmp_path):
    numbers = pt.data.ArrayDataset({"x": np.zeros((4, 3)), "y": np.zeros(4)}, ["x"], ["y"])
    with pytest.raises(DataError, match="the data have no sequences of token ids"):
        Loader(numbers, 2, buckets=[4])
    (tmp_path / "texts.tsv").write_text("text\tkind\na b\tx\nc\ty\n")
    data = pt.Data(source=str(tmp_path / "texts.tsv"), label="kind", buckets=[5])
    with pytest.raises(DataError, match=r"input \{ shape: \[none\] \}"):
        model_from_text(NET.replace("none", "8")).fit(data, verbose=0)
