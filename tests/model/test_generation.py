"""Texts that a model generates: by a table of what follows what, so that each is known; mistakes by name."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import prototorch as pt
from prototorch.cli.main import group
from prototorch.errors import UsageError
from prototorch.model.generation import _GeneratedText
from prototorch.model.load import model_from_text

NEXT = """
input { name: "text"  shape: [SHAPE]  dtype: int32 }
preprocess {
  TextVectorization { split: character  standardize: none  vocabulary: ["a", "b", "c", "d", "e", "f", "g"] }
}
Embedding { name: "next"  input_dim: 9  output_dim: 9 }
compile { loss: sparse_categorical_crossentropy { from_logits: true } }
"""
PAIRS = """
input { name: "source"  shape: [6]  dtype: int32 }
input { name: "begun"  shape: [6]  dtype: int32 }
preprocess {
  TextVectorization { split: character  vocabulary: ["a", "b", "c"]  start_token: "<"  end_token: ">" }
}
Embedding { name: "source_tokens"  bottom: "source"  input_dim: 7  output_dim: 12  mask_zero: true }
LSTM { name: "encoder"  top: ["read", "h", "c"]  units: 24  return_sequences: true  return_state: true }
Embedding { name: "target_tokens"  bottom: "begun"  input_dim: 7  output_dim: 12  mask_zero: true }
LSTM { name: "decoder"  bottom: ["target_tokens", "h", "c"]  units: 24  return_sequences: true }
MultiHeadAttention { name: "attention"  bottom: ["decoder", "read"]  num_heads: 1  key_dim: 12 }
Concatenate { bottom: ["decoder", "attention"]  axis: -1 }
Dense { units: 7 }
compile { loss: sparse_categorical_crossentropy { from_logits: true }  optimizer: Adam { learning_rate: 0.01 } }
"""


def table_model(logits, shape="5"):
    """A model whose logits are rows of a table [9, 9], by the last token."""
    model = model_from_text(NEXT.replace("SHAPE", shape))
    model.build(**({"text": [5]} if shape == "none" else {}))
    model.weights["next/embeddings"] = np.asarray(logits, np.float32)
    return model


def cycle():
    """Logits by which each letter follows the one before it in the alphabet, g by a."""
    logits = np.zeros((9, 9))
    for i in range(7):
        logits[2 + i, 2 + (i + 1) % 7] = 50
    return logits


@pytest.mark.parametrize("shape", ["1", "5", "none"])
@pytest.mark.parametrize("temperature", [0, 0.5, 1])
def test_the_next_token_is_that_of_the_model(shape, temperature):
    model = table_model(cycle(), shape)
    assert pt.generate(model, "ab", 12, temperature=temperature) == "cdefgabcdefg"
    assert pt.generate(model, "abcdefgabc", 3, temperature=temperature) == "def"
    assert pt.generate(model, "a", 0) == ""


def test_tokens_are_drawn_by_their_probabilities():
    logits = np.full((9, 9), -50.0)
    logits[:, 2:5] = np.log([0.5, 0.3, 0.2])
    logits[:, :2] = 50  # padding and the unknown token are not drawn
    model = table_model(logits)
    text = pt.generate(model, "a", 1500, seed=3)
    assert set(text) == set("abc")
    for letter, share in zip("abc", (0.5, 0.3, 0.2), strict=True):
        assert abs(text.count(letter) / 1500 - share) < 0.05  # four standard deviations
    assert text == pt.generate(model, "a", 1500, seed=3)
    assert text != pt.generate(model, "a", 1500, seed=4)
    assert set(pt.generate(model, "a", 200, top_k=2)) == set("ab")
    assert set(pt.generate(model, "a", 50, top_k=1)) == {"a"}
    cold = pt.generate(model, "a", 500, temperature=0.25)
    assert cold.count("a") > 0.8 * 500  # 0.5^4 of 0.5^4 + 0.3^4 + 0.2^4 is 0.87


def test_pairs_are_learned_and_generated(tmp_path):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abc"), n)) for n in rng.integers(1, 5, 400)]
    (tmp_path / "pairs.tsv").write_text("".join(f"{w}\t{w[::-1]}\n" for w in words))
    model = model_from_text(PAIRS)
    model.fit(str(tmp_path / "pairs.tsv"), epochs=40, batch_size=40, verbose=0)
    sources = ["abc", "ccba", "b", "acca"]
    assert [pt.generate(model, s, temperature=0) for s in sources] == [s[::-1] for s in sources]
    model.save(tmp_path / "model.h5")
    result = CliRunner().invoke(
        group, ["generate", str(tmp_path / "model.h5"), "--prompt", "abc", "--prompt", "ccba", "--temperature", "0"]
    )
    assert result.stdout == "cba\nabcc\n"


def test_the_command_writes_the_prompt_and_what_follows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table_model(cycle()).save("model.h5")
    run = CliRunner().invoke
    assert run(group, ["generate", "model.h5", "--prompt", "cd", "--length", "4"]).stdout == "cdefga\n"
    result = run(group, ["generate", "model.h5", "--prompt", "f", "--length", "3", "--json"])
    assert json.loads(result.stdout) == [{"prompt": "f", "text": "gab"}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": 3}, "prompt must be a string or a list of strings, not int"),
        ({"prompt": ""}, "the prompt has no tokens"),
        ({"prompt": []}, "prompt must be a string or a list of strings, not an empty list"),
        ({"prompt": ["a", 2]}, "prompt must be a string or a list of strings, not int"),
        ({"stop": ""}, "stop must be a text, or a list of texts, none empty"),
        ({"stop": 3}, "stop must be a text"),
        ({"temperature": -1}, "temperature must be a number of at least 0"),
        ({"temperature": float("nan")}, "temperature must be a number of at least 0"),
        ({"temperature": "hot"}, "temperature must be a number of at least 0"),
        ({"top_k": 0}, "top_k"),
        ({"max_new_tokens": -1}, "max_new_tokens"),
        ({"max_new_tokens": 1.5}, "max_new_tokens"),
        ({"seed": -1}, "seed"),
    ],
)
def test_arguments_out_of_range_are_named(options, message):
    with pytest.raises(UsageError, match=message):
        pt.generate(table_model(cycle()), **{"prompt": "a", **options})


def test_a_model_that_looks_ahead_generates_nothing():
    text = NEXT.replace("SHAPE", "5").replace(
        "compile", "MultiHeadAttention { num_heads: 1  key_dim: 9 }\nDense { units: 9 }\ncompile"
    )
    with pytest.raises(UsageError, match="its output at a step depends on the steps after it"):
        pt.generate(model_from_text(text), "ab")
    causal = model_from_text(text.replace("key_dim: 9", "key_dim: 9  causal: true"))
    assert len(pt.generate(causal, "ab", 3)) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NEXT.replace("SHAPE", "5").replace("compile", "Flatten { }\nDense { units: 9 }\ncompile"), "has the shape"),
        (NEXT.replace("SHAPE", "5").replace("output_dim: 9", "output_dim: 8"), "expected .5, at least 9."),
        ('input { shape: [4] }\nDense { units: 2 }\ncompile { loss: "mse" }', "0 are texts"),
    ],
)
def test_models_that_predict_no_tokens_are_named(text, message):
    with pytest.raises(UsageError, match=message):
        pt.generate(model_from_text(text), "a")


def test_probabilities_are_drawn_from_as_logits_are():
    text = NEXT.replace("SHAPE", "5").replace(" { from_logits: true }", "").replace("compile", "Softmax { }\ncompile")
    model = model_from_text(text)
    logits = np.full((9, 9), -50.0)
    logits[:, 2:5] = np.log([0.5, 0.3, 0.2])
    model.weights["next/embeddings"] = np.asarray(logits, np.float32)
    assert pt.generate(model, "a", 60, seed=1) == pt.generate(table_model(logits), "a", 60, seed=1)


def test_several_prompts_are_generated_together_as_each_alone():
    model = table_model(cycle(), "5")
    assert pt.generate(model, ["a", "cd", "g"], 4, temperature=0) == ["bcde", "efga", "abcd"]
    rng = np.random.default_rng(0)
    model = table_model(rng.normal(0, 2, (9, 9)), "none")
    texts = pt.generate(model, ["a", "a", "bcd"], 30, seed=5)
    assert texts[0] == pt.generate(model, "a", 30, seed=5)
    assert texts[0] != texts[1]
    assert [len(text) for text in texts] == [30, 30, 30]


def test_a_text_ends_before_a_stop():
    model = table_model(cycle(), "5")
    assert pt.generate(model, "a", 20, stop="fg") == "bcde"
    assert pt.generate(model, ["a", "f"], 20, stop=["ef", "ab"]) == ["bcd", "g"]
    assert pt.generate(model, "a", 3, stop="dq") == "bcd"  # what may have been its begin is given at the end
    parts = list(pt.generate_stream(model, "a", 12, stop="gx"))
    assert "".join(part for _, part in parts) == "bcdefgabcdef"
    assert (0, "ga") in parts  # held back until it is known
    assert list(pt.generate_stream(model, ["a", "e"], 2)) == [(0, "b"), (1, "f"), (0, "c"), (1, "g")]


def test_the_command_ends_before_a_stop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table_model(cycle()).save("model.h5")
    arguments = ["generate", "model.h5", "--prompt", "a", "--length", "30", "--stop", "ef", "--stop", "xx"]
    assert CliRunner().invoke(group, arguments).stdout == "abcd\n"


TRANSFORMER = """
input { name: "text"  shape: [12]  dtype: int32 }
preprocess { TextVectorization { split: character  vocabulary: ["a", "b", "c", "d", "e", "f", "g"] } }
Embedding { input_dim: 9  output_dim: 8 }
PositionEmbedding { sequence_length: 12 }
MultiHeadAttention { num_heads: 2  key_dim: 4  causal: true }
Dense { units: 9 }
"""


def test_what_is_kept_changes_no_text(monkeypatch):
    model = model_from_text(TRANSFORMER)
    model.build()
    rng = np.random.default_rng(7)
    for name, value in model.weights.items():
        model.weights[name] = rng.normal(0, 0.8, value.shape)
    kept = pt.generate(model, ["ab", "c"], 40, seed=2)  # beyond the window of 12, too
    monkeypatch.setattr("prototorch.model.next_logits.find_decoder", lambda *arguments: None)
    assert kept == pt.generate(model, ["ab", "c"], 40, seed=2)


class _Bytes:
    """A tokenizer whose tokens are the bytes of UTF-8."""

    def decode(self, ids):
        return bytes(ids).decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("text", "stops", "expected"),
    [
        ("héllo wörld ∑ 😀!", [], "héllo wörld ∑ 😀!"),
        ("héllo wörld ∑ 😀!", ["ö"], "héllo w"),
        ("aaab", ["aab", "zz"], "a"),
        ("one stop is two", [" is t", "stop ix"], "one stop"),
    ],
)
def test_parts_of_characters_and_of_stops_are_held_back(text, stops, expected):
    one, parts = _GeneratedText(0, [], _Bytes(), stops, None), []
    for token in text.encode():
        if not one.is_complete:
            parts.append(one.add(token))
    parts.append(one.rest())
    assert "".join(parts) == expected
    assert all("\N{REPLACEMENT CHARACTER}" not in part for part in parts)


def test_bytes_that_are_no_character_are_given_at_the_end():
    one = _GeneratedText(0, [], _Bytes(), [], None)
    assert [one.add(token) for token in b"ab\xf0\x9f"] == ["a", "b", "", ""]
    assert one.rest() == "\N{REPLACEMENT CHARACTER}"
