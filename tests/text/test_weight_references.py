"""``kernel: transpose("tok/embeddings")``: a weight of a layer above, written at the weight."""

from __future__ import annotations

import numpy as np
import pytest

import prototorch as pt
from prototorch.errors import TextError
from prototorch.graph.probe import trace_net
from prototorch.model.load import model_from_text
from prototorch.text.call_style import to_calls
from prototorch.text.loader import load_text
from prototorch.text.reader import parse
from prototorch.text.writer import format_document

HEAD = 'input("x", [4], dtype: int32)\nEmbedding(9, 3, name: "tok")\n'
SHARE = 'share { weight: "kernel"  source: "tok/embeddings"  transpose: true }'
SMALL_GPT = {"vocabulary": 11, "length": 6, "dim": 8, "heads": 2, "layers": 2, "rate": 0.0}


def expanded(text: str) -> str:
    return format_document(load_text(text))


@pytest.mark.parametrize(
    "written",
    [
        'Dense(9, kernel: transpose("tok/embeddings"), use_bias: false)',
        'Dense { units: 9  use_bias: false  kernel: transpose("tok/embeddings") }',
        'Dense { units: 9  use_bias: false  kernel: transpose { source: "tok/embeddings" } }',
        'Dense(9, use_bias: false) { kernel: transpose("tok/embeddings") }',
    ],
)
def test_all_forms_are_the_share_block(written):
    plain = f"Dense {{ units: 9  use_bias: false  {SHARE} }}"
    assert model_from_text(HEAD + written).net == model_from_text(HEAD + plain).net
    assert "transpose(" not in expanded(HEAD + written)
    assert expanded(expanded(HEAD + written)) == expanded(HEAD + written)


def test_the_weight_itself_and_another_shape():
    text = HEAD + 'Dense(3, kernel: weight("d/kernel"), name: "e")'
    text = text.replace("Dense(3", 'Dense(3, name: "d")\nDense(3', 1)
    assert list(trace_net(model_from_text(text).net, 1).weights) == ["tok/embeddings", "d/kernel", "d/bias", "e/bias"]
    reshaped = 'input("x", [6])\nDense(4, name: "a")\nDense(6, name: "b", kernel: weight("a/kernel", reshape: true))\n'
    assert "b/kernel" not in trace_net(model_from_text(reshaped).net, 1).weights


def test_the_layer_is_looked_for_from_the_innermost_block_outward():
    text = HEAD + (
        'block pair(n) {\n  Dense(n, name: "a")\n  Dense(3, kernel: transpose("a/kernel"))\n'
        '  Dense(9, kernel: transpose("tok/embeddings"))\n  Dense(3)\n}\npair(5)\npair(7)\n'
    )
    sources = [s.source for node in model_from_text(text).net.nodes for s in node.layer.share]
    assert sources == ["pair_1/a/kernel", "tok/embeddings", "pair_2/a/kernel", "tok/embeddings"]


def test_a_name_of_shared_weights_is_no_layer_and_is_found():
    text = HEAD.replace('name: "tok"', 'weights: "table"') + 'Dense(9, kernel: transpose("table/embeddings"))'
    assert model_from_text(text).net.nodes[1].layer.share[0].source == "table/embeddings"


def test_the_call_form_of_a_share_in_braces():
    text = parse(HEAD + 'Dense { units: 9  kernel: transpose { source: "tok/embeddings" } }\n', trivia=True)
    assert 'Dense(9, kernel: transpose("tok/embeddings"))' in format_document(to_calls(text))


def test_a_block_may_be_called_layer():
    text = 'input("x", [4])\nblock layer(n) { Dense(n) }\nlayer(3)\nlayer { n: 2 }\n'
    assert [node.name for node in model_from_text(text).net.nodes] == ["layer_1/dense_1", "layer_2/dense_1"]


@pytest.fixture
def small_gpt():
    model = pt.load_model("gpt2_small", **SMALL_GPT)
    model.compile(pt.optimizers.SGD(1.0), model.compile_block.loss, seed=3)
    return model


def torch_logits(weights, tokens):
    """GPT-2 of these weights by name, in PyTorch's functions."""
    import torch
    from torch.nn import functional

    def norm(x, name):
        return functional.layer_norm(x, (8,), weights[f"{name}/gamma"], weights[f"{name}/beta"], 1e-5)

    def head(x, name):
        return torch.einsum("btd,dhk->bhtk", x, weights[f"{name}/kernel"]) + weights[f"{name}/bias"][None, :, None, :]

    x = weights["tok/embeddings"][tokens] + weights["position_embedding_1/position_embeddings"]
    for i in (1, 2):
        mixing, dense = (f"layer_{i}/residual_{part}/body_1" for part in (1, 2))
        attention = f"{mixing}/multi_head_attention_1"
        y = norm(x, f"{mixing}/layer_normalization_1")
        query, key, value = (head(y, f"{attention}/{part}") for part in ("query", "key", "value"))
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        out = f"{attention}/attention_output"
        x = x + torch.einsum("bhtk,hkd->btd", y, weights[f"{out}/kernel"]) + weights[f"{out}/bias"]
        y = norm(x, f"{dense}/layer_normalization_1")
        y = functional.gelu(y @ weights[f"{dense}/dense_1/kernel"] + weights[f"{dense}/dense_1/bias"])
        x = x + y @ weights[f"{dense}/dense_2/kernel"] + weights[f"{dense}/dense_2/bias"]
    return norm(x, "layer_normalization_1") @ weights["tok/embeddings"].T


def test_a_tied_gpt_has_the_values_and_gradients_of_pytorch(small_gpt):
    import torch

    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 11, (2, 4, 6)).astype(np.int32)
    small_gpt.build()
    start = {name: np.array(array) for name, array in small_gpt.get_weights().items()}
    weights = {name: torch.tensor(array, requires_grad=True) for name, array in start.items()}
    logits = torch_logits(weights, torch.tensor(x).long())
    np.testing.assert_allclose(small_gpt.predict(x), logits.detach(), rtol=1e-4, atol=1e-5)
    torch.nn.functional.cross_entropy(logits.reshape(-1, 11), torch.tensor(y).long().reshape(-1)).backward()
    small_gpt.train_on_batch(x, y)
    for name, array in small_gpt.get_weights().items():
        np.testing.assert_allclose(start[name] - array, weights[name].grad, rtol=2e-3, atol=2e-6, err_msg=name)


def test_a_tied_gpt_is_saved_and_goes_on_as_if_it_had_not_been(small_gpt, tmp_path):
    rng = np.random.default_rng(6)
    x = rng.integers(0, 11, (16, 6)).astype(np.int32)
    small_gpt.compile("adam", small_gpt.compile_block.loss, seed=3)
    small_gpt.fit(x, x, epochs=1, batch_size=4, verbose=0)
    small_gpt.save(tmp_path / "gpt.h5")
    again = pt.load_model(tmp_path / "gpt.h5")
    assert 'source: "tok/embeddings"' in again.to_text()
    small_gpt.fit(x, x, epochs=2, initial_epoch=1, batch_size=4, verbose=0)
    again.fit(x, x, epochs=2, initial_epoch=1, batch_size=4, verbose=0)
    for name, array in small_gpt.get_weights().items():
        assert np.array_equal(array, again.get_weights()[name]), name


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("kernel: transpose", "Dense has no field 'kernel'"),
        ("kernel: transpose()", 'transpose names no weight: kernel: transpose("tok/embeddings").'),
        ("kernel: transpose(tok)", "There is no value named 'tok'."),
        (
            "kernel: transpose(3)",
            'transpose names a weight by a string in quotes: kernel: transpose("tok/embeddings").',
        ),
        ('kernel: transpose("tok")', "'tok' names no weight: write the layer's name, '/' and the weight"),
        ('kernel: transpose("tok/embeddings", axis: 1)', "transpose names a weight of a layer above and has no field"),
        ('kernel: transpose("tok/embeddings"), kernel: weight("tok/embeddings")', "Dense.kernel is given twice"),
    ],
)
def test_mistakes(written, message):
    with pytest.raises(TextError) as raised:
        model_from_text(HEAD + f"Dense(9, {written})", "m.proto")
    assert message in str(raised.value)
    assert str(raised.value).startswith("m.proto:3:")


def test_a_weight_that_no_layer_above_has():
    model = model_from_text(HEAD + 'Dense(9, kernel: transpose("tok/embedings"))')
    with pytest.raises(pt.errors.ShapeError, match="Did you mean 'tok/embeddings'"):
        model.build()
