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
from prototorch.model.load import model_from_text
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
        "a long prefix": (
            {"model": {**bpe, "continuing_subword_prefix": "x" * 65}},
            "'continuing_subword_prefix' must have at most 64 characters, got 65",
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


def replace(old, new):
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def growing(part, list_name, steps):
    """A tokenizer of letters with these steps as its normalizers, pre-tokenizers or decoders."""
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u00c3": 2}, "merges": []}
    return TokenizerJson(json.dumps({"model": model, part: {"type": "Sequence", list_name: steps}}))


@pytest.mark.parametrize(
    ("part", "list_name", "steps", "text"),
    [
        ("normalizer", "normalizers", [replace("a", "a" * 100)] * 6, "a" * 10),
        ("normalizer", "normalizers", [replace("a", "a" * 10**6)], "a" * 10**6),
        ("normalizer", "normalizers", [{"type": "Prepend", "prepend": "b" * 1000}] * 64, "a"),
        ("normalizer", "normalizers", [replace("a", "\ufdfa"), {"type": "NFKC"}, replace(" ", "\ufdfa" * 9),
                                       {"type": "NFKC"}], "a" * 1000),
        ("pre_tokenizer", "pretokenizers", [{"type": "ByteLevel", "use_regex": False}] * 64, "\u00e9"),
    ],
    ids=["replace", "replace at once", "prepend", "compatibility forms", "bytes"],
)  # fmt: skip
def test_a_file_cannot_make_a_short_text_very_long(part, list_name, steps, text):
    with pytest.raises(DataError, match=rf"its {part.replace('_', '-')}s make more than [\d,]+ characters of"):
        growing(part, list_name, steps).encode(text)


@pytest.mark.parametrize(
    "steps",
    [[replace("a", "a" * 1000)] * 4, [replace("a", "b" * 10**6)], [{"type": "Metaspace", "replacement": ""}] * 64],
    ids=["replace", "replace at once", "spaces"],
)
def test_a_file_cannot_make_tokens_very_long(steps):
    with pytest.raises(DataError, match=r"its decoders make more than [\d,]+ characters of"):
        growing("decoder", "decoders", steps).decode([0])


def test_steps_that_add_a_little_are_allowed():
    prefix = [{"type": "Prepend", "prepend": "b" * 4000}]
    assert growing("normalizer", "normalizers", prefix).encode("a") == [1] * 4000 + [0]
    assert growing("normalizer", "normalizers", [replace("a", "a" * 60)]).encode("a" * 10**4) == [0] * 60 * 10**4
    assert growing("decoder", "decoders", [replace("a", "a" * 60)]).decode([0] * 100) == "a" * 6000


def test_all_parts_of_a_text_share_the_bound():
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}
    added = [{"id": 2, "content": "<s>", "special": True}]
    normalizer = {"type": "Prepend", "prepend": "b" * 4000}
    tokenizer = TokenizerJson(json.dumps({"model": model, "added_tokens": added, "normalizer": normalizer}))
    assert len(tokenizer.encode("<s>a")) == 4002
    with pytest.raises(DataError, match="its normalizers make more than"):
        tokenizer.encode("<s>a" * 100)


def test_strip_of_long_tokens_takes_time_in_proportion():
    tokens = {"a" * 500_000 + "b" + "a" * 3: 0, "aaa": 1, "": 2}
    model = {"type": "WordLevel", "vocab": tokens, "unk_token": "aaa"}

    def decode(start, stop, ids=(0,), sign="a"):
        strip = {"type": "Strip", "content": sign, "start": start, "stop": stop}
        return TokenizerJson(json.dumps({"model": model, "decoder": strip})).decode(ids)

    assert decode(10**9, 2) == "ba"
    assert decode(-1, 10**30) == "a" * 500_000 + "b"
    assert decode(2, 2, (1, 2)) == ""
    assert decode(1, 1, (1, 2)) == "a"
    assert decode(1, 1, (1,), "") == "aaa"


def test_a_long_text_takes_time_in_proportion():
    model = {"type": "BPE", "vocab": {"a": 0, "aa": 1, "aaaa": 2}, "merges": [["a", "a"], ["aa", "aa"]]}
    tokenizer = TokenizerJson(json.dumps({"model": model}))
    assert tokenizer.encode("a" * 200_000) == [2] * 50_000
