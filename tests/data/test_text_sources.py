"""Sources of texts: tables, folders, windows of one text, pairs; learned by a model, saved, and used on texts."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import prototorch as pt
from prototorch.cli.main import group
from prototorch.data.token_dataset import TokenSequences, WindowDataset
from prototorch.errors import DataError, UsageError
from prototorch.model.load import model_from_text

CLASSIFIER = """
input {{ name: "text"  shape: [{length}]  dtype: int32 }}
preprocess {{ TextVectorization {{ max_tokens: 50 }} }}
Embedding {{ input_dim: 50  output_dim: 8  mask_zero: true }}
GlobalAveragePooling1D {{ }}
Dense {{ units: 2  name: "logits" }}
compile {{
  loss: sparse_categorical_crossentropy {{ from_logits: true }}
  optimizer: Adam {{ learning_rate: 0.05 }}
  metrics: [accuracy]
}}
"""
LANGUAGE = """
input { name: "text"  shape: [6]  dtype: int32 }
preprocess { TextVectorization { max_tokens: 30  split: character  standardize: none } }
Embedding { input_dim: 30  output_dim: 8 }
GRU { units: 24  return_sequences: true }
Dense { units: 30 }
compile {
  loss: sparse_categorical_crossentropy { from_logits: true }
  optimizer: Adam { learning_rate: 0.02 }
  metrics: [accuracy]
}
"""
GOOD = ["a good film", "lovely, good and fun", "what a joy", "great fun!"]
BAD = ["a bad film", "terrible and bad", "what a bore", "awful bore"]


def classifier(length="10"):
    return model_from_text(CLASSIFIER.format(length=length))


@pytest.fixture
def table(tmp_path):
    rows = [f'"{t}",good' for t in GOOD] + [f'"{t}",bad' for t in BAD]
    path = tmp_path / "reviews.csv"
    path.write_text("review,mood\n" + "\n".join(rows * 4) + "\n", encoding="utf-8")
    return path


def test_a_table_is_learned_saved_and_used_on_texts(table, tmp_path):
    model = pt.load_model(_net(tmp_path))
    history = model.fit(pt.Data(source=str(table), label="mood"), epochs=12, batch_size=8, verbose=0)
    assert history.history["accuracy"][-1] == 1.0
    model.save(tmp_path / "model.h5")
    again = pt.load_model(tmp_path / "model.h5")
    assert again.fit_block.data.classes == ("bad", "good")
    texts = ["a joy", "a bore"]
    assert np.array_equal(again.predict(texts), model.predict(texts))
    result = CliRunner().invoke(group, ["predict", str(tmp_path / "model.h5"), "what fun, a joy", str(table), "--json"])
    assert result.exception is None, result.exception
    rows = json.loads(result.stdout)
    assert rows[0]["name"] == "what fun, a joy"
    assert rows[0]["classes"]["logits"][0]["class"] == "good"
    assert [row["name"] for row in rows[1:9]] == GOOD + BAD
    assert [row["classes"]["logits"][0]["class"] for row in rows[1:9]] == ["good"] * 4 + ["bad"] * 4


def _net(folder):
    path = folder / "net.proto"
    path.write_text(CLASSIFIER.format(length=10))
    return path


def test_a_tab_delimits_texts_with_commas(tmp_path):
    path = tmp_path / "reviews.tsv"
    path.write_text("".join(f"{t}, really, truly\t{k}\n" for k, ts in enumerate([GOOD, BAD]) for t in ts))
    model = classifier()
    model.fit(pt.Data(source=str(path), label=[1]), epochs=1, verbose=0)
    assert "truly" in model.net.preprocess[0].get_vocabulary()


def test_a_folder_of_files_per_class_with_splits(tmp_path):
    for split, count in (("train", 4), ("test", 2)):
        for word, texts in (("good", GOOD), ("bad", BAD)):
            (tmp_path / split / word).mkdir(parents=True)
            for k, text in enumerate(texts[:count]):
                (tmp_path / split / word / f"{k}.txt").write_text(f"{text} {split}")
    model = classifier()
    history = model.fit(pt.Data(source=str(tmp_path)), epochs=30, verbose=0)
    assert model.fit_block.data.classes == ("bad", "good")
    assert history.history["val_accuracy"][-1] == 1.0


def test_a_saved_model_follows_no_link_out_of_its_folder_of_texts(tmp_path, monkeypatch):
    (tmp_path / "secret.txt").write_text("hunter2")
    for word in ("good", "bad"):
        (tmp_path / "mine" / "texts" / word).mkdir(parents=True)
        (tmp_path / "mine" / "texts" / word / "1.txt").write_text(word)
    monkeypatch.chdir(tmp_path / "mine")
    text = CLASSIFIER.format(length=10) + 'fit { epochs: 1  data { source: "texts" } }'
    model_from_text(text).save("model.h5")
    pt.load_model("model.h5").fit(verbose=0)
    (tmp_path / "mine" / "texts" / "good" / "2.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(UsageError, match="a saved model reads data inside the working directory only"):
        pt.load_model("model.h5").fit(verbose=0)


def test_lines_are_predicted(tmp_path):
    model = classifier()
    model.fit(GOOD + BAD, np.array([1] * 4 + [0] * 4), epochs=2, verbose=0)
    (tmp_path / "lines.txt").write_text("a good film\n\na bad film\n")
    expected = model.predict(["a good film", "a bad film"])
    assert np.array_equal(model.predict(pt.Data(source=str(tmp_path / "lines.txt"), text="lines")), expected)


def test_windows_of_one_text_and_the_next_token(tmp_path):
    (tmp_path / "text.txt").write_text("abcdefgh" * 40, encoding="utf-8")
    model = model_from_text(LANGUAGE)
    history = model.fit(pt.Data(source=str(tmp_path / "text.txt"), text="windows"), epochs=15, verbose=0)
    assert history.history["accuracy"][-1] > 0.95
    ids = model.net.preprocess[0]("cdefgh")[None]
    predicted = model.predict(ids).argmax(-1)[0]
    assert model.net.preprocess[0].decode(predicted)[-3:] == "gha"


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 7, 20])
def test_windows_are_those_of_a_loop(stride):
    ids = np.arange(23, dtype=np.int32)
    dataset = WindowDataset(ids, 4, stride)
    starts = [s for s in range(0, 23, stride) if s + 4 < 23]
    assert len(dataset) == len(starts)
    batch = dataset.read(np.arange(len(dataset)))
    assert batch["x"].tolist() == [list(range(s, s + 4)) for s in starts]
    assert batch["y"].tolist() == [list(range(s + 1, s + 5)) for s in starts]
    for column in "xy":
        assert np.array_equal(dataset.column_array(column), batch[column])
    assert dataset.origin(1 if len(starts) > 1 else 0).endswith(f"token {starts[min(1, len(starts) - 1)] + 1}")


@pytest.mark.parametrize("length", [None, 1, 3, 6])
def test_sequences_are_padded_and_cut(length):
    rng = np.random.default_rng(0)
    rows = [rng.integers(1, 9, n).tolist() for n in (3, 0, 6, 1)]
    sequences = TokenSequences(rows, length)
    size = length or 6
    expected = [(row + [0] * size)[:size] for row in rows]
    assert sequences.read(np.array([2, 0, 1, 3, 2])).tolist() == [expected[i] for i in (2, 0, 1, 3, 2)]
    assert sequences.lengths.tolist() == [min(len(row), size) for row in rows]


def test_pairs_have_a_start_and_an_end(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("one\tuno\ntwo\tdue\n")
    layer = pt.layers.TextVectorization(split="character", start_token="<", end_token=">")
    source, begun = pt.Input((5,), dtype="int32", name="source"), pt.Input((5,), dtype="int32", name="begun")
    table = pt.layers.Embedding(20, 4, mask_zero=True, weights="table")
    both = pt.layers.Concatenate(axis=1)([table(source), table(begun)])
    model = pt.Model([source, begun], pt.layers.Dense(20)(both), preprocess=[layer])
    data = pt.Data(source=str(path), text="pairs", label=[1])
    dataset = data.open_train_and_validation(texts=_texts(model), learn=True)[0]
    batch = dataset.read(np.arange(2))
    vocabulary = layer.get_vocabulary()
    as_text = {name: ["".join(vocabulary[i] or "_" for i in row) for row in rows] for name, rows in batch.items()}
    assert as_text == {"source": ["one__", "two__"], "begun": ["<uno_", "<due_"], "next": ["uno>_", "due>_"]}
    assert dataset.inputs == ("source", "begun")
    assert dataset.targets == ("next",)


def _texts(model):
    from prototorch.train.data_signature import text_inputs

    return text_inputs(model.net)


@pytest.mark.parametrize(
    ("make", "options", "error", "message"),
    [
        ("a\n", {}, DataError, "say how this file holds them"),
        ("a\n", {"text": "files"}, DataError, "reads a folder of text files per class, and this is a file"),
        ("a\n", {"text": "table"}, DataError, "needs the target column"),
        ("a\n", {"text": "pairs", "label": "b"}, DataError, "is for a model of 2 inputs"),
        ("a,b\nx,y\n", {"label": "mood"}, DataError, "has no column 'mood'"),
        ("a,b,c\nx,y,z\n", {"label": "b"}, DataError, "expected 1 column of texts and one target, got 2 and 1"),
        ("a,b\nx\n", {"label": "b"}, DataError, "line 2: has 1 fields, expected 2"),
        ("a,b\n", {"label": "b"}, DataError, "has no rows"),
        ("short", {"text": "windows"}, DataError, "a window of 10 and its target need one token more"),
        ("\0", {"text": "lines"}, DataError, "has NUL characters"),
        ("", {"text": "lines"}, DataError, "the texts have no tokens"),
    ],
)
def test_mistakes_of_sources_are_named(tmp_path, make, options, error, message):
    path = tmp_path / "file.txt"
    path.write_text(make)
    with pytest.raises(error, match=message):
        classifier().fit(pt.Data(source=str(path), **options), verbose=0)


def test_a_model_without_a_tokenizer_reads_no_texts(tmp_path):
    (tmp_path / "file.txt").write_text("a b\n")
    model = pt.Sequential([pt.Input((3,)), pt.layers.Dense(2)])
    model.compile(loss="mse")
    with pytest.raises(DataError, match="for a model that reads texts; this one has no tokenizer"):
        model.fit(pt.Data(source=str(tmp_path / "file.txt"), text="lines"), verbose=0)
    with pytest.raises(DataError, match="holds text, not numbers"):
        model.predict(np.array(["a", "b"]))


def test_a_tokenizer_learns_in_fit_only():
    with pytest.raises(UsageError, match="it has no vocabulary yet"):
        classifier().predict(["a"])


def test_lengths_that_disagree_are_named():
    text = CLASSIFIER.format(length=10).replace("max_tokens: 50", "max_tokens: 50  output_sequence_length: 7")
    model = model_from_text(text)
    with pytest.raises(UsageError, match="has 10 steps, and output_sequence_length of its TextVectorization is 7"):
        model.fit(GOOD, np.zeros(4, int), verbose=0)


def test_a_table_smaller_than_the_vocabulary_is_an_error():
    text = CLASSIFIER.format(length=10).replace("input_dim: 50", "input_dim: 5")
    with pytest.raises(DataError, match="expects integers from 0 to 4"):
        model_from_text(text).fit(GOOD + BAD, np.array([1] * 4 + [0] * 4), verbose=0)


def test_ids_of_a_tokenizer_are_taken_as_they_are():
    model = classifier()
    model.fit(GOOD + BAD, np.array([1] * 4 + [0] * 4), epochs=1, verbose=0)
    layer = model.net.preprocess[0]
    ids = layer.encode_batch(GOOD, 10)
    assert np.array_equal(model.predict(ids), model.predict(GOOD))
    np.testing.assert_allclose(model(GOOD).detach().numpy(), model.predict(GOOD), rtol=1e-5, atol=1e-6)


def test_an_input_of_any_length_takes_the_longest_text():
    model = classifier("none")
    model.fit(GOOD + BAD, np.array([1] * 4 + [0] * 4), epochs=1, verbose=0)
    assert model.predict(["a good film that is longer than all the others"]).shape == (1, 2)
