"""TextVectorization: Keras' rules of vocabulary, standardization and padding; files; the way into a text and back."""

import random
import re
from collections import Counter

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import DataError, PrototorchError, TextError, UsageError
from prototorch.model.load import model_from_text

TEXTS = ["A good film, good!", "the worst film", "Good cast; the end."]
NET = """
input {{ name: "text"  shape: [4]  dtype: int32 }}
preprocess {{ TextVectorization {{ {fields} }} }}
Embedding {{ input_dim: 20  output_dim: 3 }}
Flatten {{ }}
Dense {{ units: 2 }}
"""


def by_keras_rule(texts, max_tokens=None):
    """The vocabulary by what Keras documents: lower case, no punctuation, most frequent first, ties backwards."""
    words = Counter(w for t in texts for w in re.sub(r"[!\"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~']", "", t.lower()).split())
    ranked = sorted(words.items(), key=lambda item: item[0], reverse=True)
    ranked.sort(key=lambda item: -item[1])
    return ["", "[UNK]", *[w for w, _ in ranked]][:max_tokens]


@pytest.mark.parametrize("max_tokens", [None, 3, 5, 100])
@pytest.mark.parametrize("seed", range(3))
def test_the_vocabulary_is_ranked_as_in_keras(seed, max_tokens):
    rng = random.Random(seed)
    texts = [" ".join(rng.choice(["a", "Bee", "sea!", "d'oh", "e-f", "gg", "Ö"]) for _ in range(9)) for _ in range(6)]
    layer = pt.layers.TextVectorization(max_tokens)
    layer.adapt(texts)
    expected = by_keras_rule(texts, max_tokens)
    assert layer.get_vocabulary() == expected
    assert layer.vocabulary_size() == len(expected)
    ids = layer(texts)
    assert ids.dtype == np.int32
    assert ids.max() < len(expected)
    words = [re.sub(r"[!'\-]", "", text.lower()).split() for text in texts]
    assert ids.tolist() == [[expected.index(w) if w in expected else 1 for w in row] for row in words]


def test_ids_are_padded_with_0_and_cut():
    layer = pt.layers.TextVectorization(output_sequence_length=3, vocabulary=["b", "a"])
    assert layer(["a", "a b a b", ""]).tolist() == [[3, 0, 0], [3, 2, 3], [0, 0, 0]]
    assert layer("b zz").tolist() == [2, 1, 0]
    assert layer(np.array([["a"], ["b"]])).tolist() == [[3, 0, 0], [2, 0, 0]]


def test_characters_are_decoded_to_the_same_text():
    layer = pt.layers.TextVectorization(split="character", standardize=None, start_token="<s>", end_token="</s>")
    layer.adapt(["a text\nof lines", "ÄÖ ü"])
    for text in ["of", "a\nü", "lines of text"]:
        assert layer.decode(layer.encode(text)) == text
    assert layer.get_vocabulary()[2:4] == ["<s>", "</s>"]
    assert layer.edge_ids() == (2, 3)
    assert layer.decode([2, *layer.encode("so"), 3, 0]) == "so"


def test_a_text_holds_the_vocabulary_and_reads_back_equal():
    tokens = ["it's", 'say "x"', "back\\slash", "tab\t", "line\nbreak", "ü", "{ }", "# no comment", "$x"]
    layer = pt.layers.TextVectorization(split=None, standardize=None, vocabulary=tokens)
    model = pt.Sequential([pt.Input((4,), dtype="int32"), pt.layers.Embedding(20, 2)], preprocess=[layer])
    again = model_from_text(model.to_text())
    assert again.net.preprocess[0] == layer
    assert again.to_text() == model.to_text()
    assert again.net.preprocess[0].get_vocabulary()[2:] == tokens


def test_a_vocabulary_file_lies_beside_the_text(tmp_path, monkeypatch):
    (tmp_path / "words.txt").write_text("\n[UNK]\nfilm\ngood\n", encoding="utf-8")
    (tmp_path / "net.proto").write_text(NET.format(fields='vocabulary: "words.txt"'))
    monkeypatch.chdir("/")
    model = pt.load_model(tmp_path / "net.proto")
    assert model.net.preprocess[0].get_vocabulary() == ["", "[UNK]", "film", "good"]
    assert 'vocabulary: ["film", "good"]' in model.to_text()


def test_a_text_names_files_in_its_folder_alone(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "secret.txt").write_text("hunter2\nhunter2\n")
    (tmp_path / "mine" / "link.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "mine" / "twice.txt").write_text("hunter2\nhunter2\n")
    monkeypatch.chdir(tmp_path / "mine")
    for name in ("../secret.txt", "link.txt", str(tmp_path / "secret.txt")):
        (tmp_path / "mine" / "net.proto").write_text(NET.format(fields=f'vocabulary: "{name}"'))
        with pytest.raises(TextError, match="is outside of") as caught:
            pt.load_model("net.proto")
        assert "hunter" not in str(caught.value)
    (tmp_path / "mine" / "net.proto").write_text(NET.format(fields='vocabulary: "twice.txt"'))
    with pytest.raises(TextError, match="token 2 is twice") as caught:
        pt.load_model("net.proto")
    assert "hunter" not in str(caught.value)
    with pytest.raises(DataError, match="token 2 is twice"):
        pt.layers.TextVectorization(vocabulary=str(tmp_path / "secret.txt"))


def test_a_saved_model_names_no_vocabulary_file(tmp_path):
    model = model_from_text(NET.format(fields='vocabulary: ["a"]'))
    model.build()
    layer = model.net.preprocess[0]
    layer.set_field("vocabulary", "/etc/passwd")
    model.save(tmp_path / "model.h5")
    with pytest.raises(TextError, match="a saved model holds its tokenizer, and its text names a file"):
        pt.load_model(tmp_path / "model.h5")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ('vocabulary: ["a", "a"]', "the token 'a' is twice"),
        ('vocabulary: ["b", "[UNK]"]', "is twice in the vocabulary, or a special one"),
        ('vocabulary: ["a", "b"]  max_tokens: 3', "more than max_tokens 3"),
        ('vocabulary: "no_such_file"', "cannot be opened"),
        ("max_tokens: 2", "of at least 3"),
        ("max_tokens: 1048577", "at most 1048576"),
        ("output_sequence_length: 1048577", "at most 1048576"),
        ("output_mode: tf_idf", "has no field 'output_mode'"),
        ("split: sentence", "must be 'whitespace' or 'character' or none"),
    ],
)
def test_mistakes_of_a_text_are_named(fields, message):
    with pytest.raises(TextError, match=re.escape(message)):
        model_from_text(NET.format(fields=fields))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda layer: layer(["a"]), UsageError, "it has no vocabulary yet"),
        (lambda layer: layer.decode([1]), UsageError, "it has no vocabulary yet"),
        (lambda layer: layer.adapt([1, 2]), UsageError, "expected texts, got int"),
        (lambda layer: layer.adapt(3), UsageError, "expected texts, got int"),
        (lambda layer: layer.adapt(["", "!"]), DataError, "the texts have no tokens"),
        (lambda layer: layer(["a", 1]), DataError, "expected texts, got int among 1"),
        (lambda layer: layer(np.array([["a", "b"]])), DataError, "got the shape"),
        (lambda layer: layer.edge_ids(), UsageError, "needs a start and an end"),
        (lambda _: pt.layers.TextVectorization(output_mode="tf_idf"), UsageError, "the output is ids"),
        (lambda _: pt.layers.TextVectorization(ngrams=2), UsageError, "single words or characters"),
        (lambda _: pt.layers.TextVectorization(vocabulary="/no/such/file"), DataError, "cannot be opened"),
    ],
)
def test_mistakes_in_python_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call(pt.layers.TextVectorization())


def test_a_vocabulary_file_is_bounded(tmp_path):
    (tmp_path / "long.txt").write_text("x" * 5000)
    with pytest.raises(PrototorchError, match=r"longer than 4,000 bytes"):
        pt.layers.TextVectorization(vocabulary=str(tmp_path / "long.txt"))
    (tmp_path / "bytes.txt").write_bytes(b"ok\n\xff\n")
    with pytest.raises(DataError, match="is not UTF-8 text"):
        pt.layers.TextVectorization(vocabulary=str(tmp_path / "bytes.txt"))
