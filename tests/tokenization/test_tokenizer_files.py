"""tokenizer.json: ids and texts are those of the library `tokenizers` 0.23.3, kept in a file; damage and limits."""

import copy
import json
import random
import re
from pathlib import Path

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import DataError, PrototorchError, TextError, UsageError
from prototorch.load import model_from_text
from prototorch.tokenization.tokenizer_json import TokenizerJson

#: small tokenizers trained with the library, each with texts, their ids, and what the library decodes them to
KEPT = {one["name"]: one for one in json.loads((Path(__file__).parent / "tokenizers_0_23.json").read_text())}
NET = """
input {{ name: "text"  shape: [{length}]  dtype: int32 }}
preprocess {{ TokenizerFile {{ {fields} }} }}
Embedding {{ input_dim: 400  output_dim: 4 }}
Flatten {{ }}
Dense {{ units: 2 }}
compile {{ loss: sparse_categorical_crossentropy {{ from_logits: true }} }}
"""


def write(path, name, **changes):
    path.write_text(json.dumps({**KEPT[name]["file"], **changes}), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", KEPT)
def test_ids_and_texts_are_those_of_the_library(name):
    tokenizer = TokenizerJson(json.dumps(KEPT[name]["file"]))
    for text, ids, decoded in KEPT[name]["cases"]:
        assert tokenizer.encode(text) == ids, text
        assert tokenizer.decode(ids) == decoded, text


@pytest.mark.parametrize("name", ["gpt2", "bert0", "unigram"])
def test_a_model_with_a_tokenizer_file_holds_it(tmp_path, monkeypatch, name):
    write(tmp_path / "tokenizer.json", name)
    (tmp_path / "net.proto").write_text(NET.format(length=9, fields='file: "tokenizer.json"'))
    monkeypatch.chdir("/")
    model = pt.load_model(tmp_path / "net.proto")
    texts = ["return the value", "don't", "naïve 東京"]
    model.fit(texts, np.array([0, 1, 1]), verbose=0)
    model.save(tmp_path / "model.h5")
    again = pt.load_model(tmp_path / "model.h5")
    assert again.to_text() == model.to_text()
    assert np.array_equal(again.predict(texts), model.predict(texts))
    layer = again.net.preprocess[0]
    engine = TokenizerJson(json.dumps(KEPT[name]["file"]))
    padding = layer.padding_id()
    expected = [(engine.encode(t) + [padding] * 9)[:9] for t in texts]
    assert layer.encode_batch(texts, 9).tolist() == expected
    assert model_from_text(model.to_text()).net.preprocess[0] == layer


def test_long_definitions_are_split_and_read_back(tmp_path):
    words = {f"word{i}" + "x" * 200: i for i in range(4000)}
    model = {"type": "WordLevel", "vocab": {"[PAD]": 4000, **words}, "unk_token": "[PAD]"}
    (tmp_path / "t.json").write_text(json.dumps({"model": model}))
    layer = pt.layers.TokenizerFile(str(tmp_path / "t.json"))
    assert len(layer.definition) == 2
    net = pt.Sequential([pt.Input((3,), dtype="int32"), pt.layers.Embedding(4001, 1)], preprocess=[layer])
    again = model_from_text(net.to_text()).net.preprocess[0]
    assert again == layer
    assert again.encode("word3999" + "x" * 200) == [3999]


def test_a_saved_model_names_no_tokenizer_file():
    text = NET.format(length=4, fields='file: "/etc/passwd"')
    with pytest.raises(TextError, match="/etc/passwd is outside of"):
        model_from_text(text)
    layer = pt.layers.TokenizerFile(definition=json.dumps({"model": {"vocab": {"a": 0}}}))
    layer.set_field("file", "/etc/passwd")
    with pytest.raises(UsageError, match="a saved model holds its tokenizer, and its text names a file"):
        layer.resolve(None)


def test_padding_that_is_not_the_masked_id_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t.json", "gpt2", padding={"pad_id": 5})
    text = NET.format(length=4, fields='file: "t.json"').replace("output_dim: 4", "output_dim: 4  mask_zero: true")
    with pytest.raises(UsageError, match="masks the id 0, and the tokenizer file pads with 5"):
        model_from_text(text).predict(["a"])


def test_a_file_without_padding_needs_its_name(tmp_path):
    write(tmp_path / "t.json", "suffix")
    with pytest.raises(UsageError, match="the file has no padding token: name one"):
        pt.layers.TokenizerFile(str(tmp_path / "t.json"))(["a", "a b"])
    layer = pt.layers.TokenizerFile(str(tmp_path / "t.json"), pad_token="<unk>")
    assert layer(["a", "a b"])[0, -1] == 0


def test_generated_texts_begin_without_the_template(tmp_path):
    layer = pt.layers.TokenizerFile(str(write(tmp_path / "t.json", "bert0")))
    ids = layer.encode("return self")
    assert layer.encode_part("return self") == ids[1:-1]
    assert layer.decode(ids) == "return self"


def mutations():
    """Changes of a file that make it another one, or none."""
    part = {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 65}
    deep = {"type": "NFC"}
    for _ in range(12):
        deep = {"type": "Sequence", "normalizers": [deep]}
    bpe = KEPT["gpt2"]["file"]["model"]
    return {
        "no model": ({"model": None}, "expected an object with a model"),
        "unknown model": ({"model": {"type": "Magic"}}, "the model 'Magic' is none of BPE"),
        "model without vocab": ({"model": {"type": "BPE"}}, "BPE needs 'vocab'"),
        "ids that are none": ({"model": {**bpe, "vocab": {"a": -1}}}, "ids must be integers"),
        "an id of 2^40": ({"model": {**bpe, "vocab": {"a": 2**40}}}, "ids must be integers"),
        "an id twice": ({"model": {**bpe, "vocab": {"a": 1, "b": 1}}}, "an id stands for two tokens"),
        "an empty vocabulary": ({"model": {**bpe, "vocab": {}}}, "the vocabulary is empty"),
        "a merge of one": ({"model": {**bpe, "merges": ["a"]}}, "merge 0 is no pair"),
        "a merge of unknown tokens": ({"model": {**bpe, "merges": [["zzz", "a"]]}}, "that are not in the vocabulary"),
        "dropout": ({"model": {**bpe, "dropout": 0.1}}, "its ids would be random"),
        "long words": (
            {"model": {"type": "WordPiece", "vocab": {"a": 0}, "max_input_chars_per_word": 10**9}},
            "must be 0 to 1,000",
        ),
        "scores": ({"model": {"type": "Unigram", "vocab": [["a", "b"]]}}, "pairs of a token and its score"),
        "unk_id": (
            {"model": {"type": "Unigram", "vocab": [["a", 0]], "unk_id": 4}},
            "unk_id 4 is not in the vocabulary",
        ),
        "an unknown normalizer": (
            {"normalizer": {"type": "Precompiled"}},
            "the normalizer 'Precompiled' is not supported",
        ),
        "a regular expression": (
            {"normalizer": {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}},
            "Replace with a regular",
        ),
        "a split by any expression": (
            {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}}},
            "a regular expression that is not known",
        ),
        "a part that is none": ({"decoder": [1]}, "must be an object with a type"),
        "many parts": ({"normalizer": part}, "a list of at most 64"),
        "deep parts": ({"normalizer": deep}, "a list of at most 64"),
        "template ids": (
            {"post_processor": {"type": "BertProcessing", "sep": ["a", 10**6], "cls": ["b", 0]}},
            "which is no token",
        ),
        "added tokens": ({"added_tokens": [{"id": 3}]}, "needs 'content'"),
        "an empty added token": ({"added_tokens": [{"id": 3, "content": ""}]}, "1 to 1,000 characters"),
    }


@pytest.mark.parametrize("name", mutations())
def test_damaged_files_are_named(tmp_path, name):
    changes, message = mutations()[name]
    with pytest.raises(DataError, match=re.escape(message)):
        pt.layers.TokenizerFile(str(write(tmp_path / "t.json", "gpt2", **changes)))


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_is_an_error_in_words_or_another_tokenizer(seed):
    rng = random.Random(seed)
    data = copy.deepcopy(rng.choice(list(KEPT.values()))["file"])
    for _ in range(rng.randint(1, 3)):
        place = data
        while True:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = rng.choice(list(keys)) if len(keys) else None
            if key is None:
                break
            if isinstance(place[key], dict | list) and rng.random() < 0.7:
                place = place[key]
                continue
            place[key] = rng.choice([None, -1, 10**30, "", "x", [], {}, True, 0.5, [[]], {"type": "NFC"}])
            break
    try:
        tokenizer = TokenizerJson(json.dumps(data))
        for text, _, _ in next(iter(KEPT.values()))["cases"][:40]:
            tokenizer.decode(tokenizer.encode(text))
    except PrototorchError:
        pass


@pytest.mark.parametrize(
    "text", ["", "[", "null", "[1]", '{"a": 1}', "[" * 100_000, '{"model": {"vocab": 1}}', "1" * 10_000]
)
def test_files_of_another_kind_are_named(text):
    with pytest.raises(DataError, match="tokenizer file"):
        TokenizerJson(text)


def test_a_long_text_takes_time_in_proportion():
    model = {"type": "BPE", "vocab": {"a": 0, "aa": 1, "aaaa": 2}, "merges": [["a", "a"], ["aa", "aa"]]}
    tokenizer = TokenizerJson(json.dumps({"model": model}))
    assert tokenizer.encode("a" * 200_000) == [2] * 50_000
