"""The blocks of models/blocks/transformer.proto against PyTorch's encoder and decoder layers on the same weights."""

import shutil

import numpy as np
import pytest
import torch
from torch import nn

import prototorch as pt
from prototorch.base.package_files import package_folder

DIM, HEADS, HIDDEN = 8, 2, 12


def model_of(text, folder):
    """A model of a text beside the shipped blocks, with random weights."""
    shutil.copytree(package_folder("models") / "blocks", folder / "blocks")
    (folder / "net.proto").write_text(text)
    model = pt.load_model(str(folder / "net.proto"))
    rng = np.random.default_rng(0)
    model.set_weights({name: rng.normal(0, 0.5, array.shape) for name, array in model.weights.items()})
    return model


def copy_norm(weights, name, norm):
    norm.weight.data = torch.tensor(weights[f"{name}/gamma"])
    norm.bias.data = torch.tensor(weights[f"{name}/beta"])


def copy_linear(weights, name, linear):
    linear.weight.data = torch.tensor(weights[f"{name}/kernel"]).T.contiguous()
    linear.bias.data = torch.tensor(weights[f"{name}/bias"])


def copy_attention(weights, name, attention):
    parts = [f"{name}/{part}" for part in ("query", "key", "value")]
    kernels = [torch.tensor(weights[f"{part}/kernel"]).reshape(DIM, DIM).T for part in parts]
    attention.in_proj_weight.data = torch.cat(kernels)
    attention.in_proj_bias.data = torch.cat([torch.tensor(weights[f"{part}/bias"]).reshape(DIM) for part in parts])
    attention.out_proj.weight.data = torch.tensor(weights[f"{name}/attention_output/kernel"]).reshape(DIM, DIM).T
    attention.out_proj.bias.data = torch.tensor(weights[f"{name}/attention_output/bias"])


def copy_layer(weights, name, peer, pre_norm):
    """The weights of a block into a layer of PyTorch."""
    norms = [n for n in ("norm1", "norm2", "norm3") if hasattr(peer, n)]
    names = [f"layer_normalization_{k + 1}" for k in range(len(norms))]
    if len(norms) == 3 and pre_norm:
        names = ["layer_normalization_1", "query", "layer_normalization_2"]
    for ours, theirs in zip(names, norms, strict=True):
        copy_norm(weights, f"{name}/{ours}", getattr(peer, theirs))
    copy_attention(weights, f"{name}/multi_head_attention_1", peer.self_attn)
    if hasattr(peer, "multihead_attn"):
        copy_attention(weights, f"{name}/multi_head_attention_2", peer.multihead_attn)
    copy_linear(weights, f"{name}/dense_1", peer.linear1)
    copy_linear(weights, f"{name}/dense_2", peer.linear2)


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder(pre_norm, causal, activation, tmp_path):
    model = model_of(
        f"""name: "one"
        include "blocks/transformer.proto"
        input {{ name: "x"  shape: [5, {DIM}] }}
        encoder {{ name: "layer"  dim: {DIM}  heads: {HEADS}  hidden: {HIDDEN}  causal: {str(causal).lower()}
                   activation: {activation}  pre_norm: {str(pre_norm).lower()} }}""",
        tmp_path,
    )
    peer = nn.TransformerEncoderLayer(DIM, HEADS, HIDDEN, activation=activation, batch_first=True, norm_first=pre_norm)
    copy_layer(model.weights, "layer", peer.eval(), pre_norm)
    x = np.random.default_rng(1).standard_normal((3, 5, DIM)).astype("float32")
    mask = nn.Transformer.generate_square_subsequent_mask(5) if causal else None
    with torch.no_grad():
        expected = peer(torch.tensor(x), src_mask=mask, is_causal=causal).numpy()
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pre_norm", [True, False])
def test_decoder(pre_norm, tmp_path):
    model = model_of(
        f"""name: "both"
        include "blocks/transformer.proto"
        input {{ name: "source"  shape: [7, {DIM}] }}
        input {{ name: "target"  shape: [5, {DIM}] }}
        encoder {{ name: "reader"  bottom: "source"  dim: {DIM}  heads: {HEADS}  hidden: {HIDDEN} }}
        LayerNormalization {{ name: "memory"  epsilon: 1e-5 }}
        decoder {{ name: "writer"  bottom: "target"  dim: {DIM}  heads: {HEADS}  hidden: {HIDDEN}  memory: "memory"
                   activation: relu  pre_norm: {str(pre_norm).lower()} }}""",
        tmp_path,
    )
    reader = nn.TransformerEncoderLayer(DIM, HEADS, HIDDEN, activation="gelu", batch_first=True, norm_first=True)
    writer = nn.TransformerDecoderLayer(DIM, HEADS, HIDDEN, batch_first=True, norm_first=pre_norm)
    norm = nn.LayerNorm(DIM)
    copy_layer(model.weights, "reader", reader.eval(), True)
    copy_norm(model.weights, "memory", norm)
    copy_layer(model.weights, "writer", writer.eval(), pre_norm)
    rng = np.random.default_rng(1)
    source, target = (rng.standard_normal((3, n, DIM)).astype("float32") for n in (7, 5))
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    with torch.no_grad():
        memory = norm(reader(torch.tensor(source)))
        expected = writer(torch.tensor(target), memory, tgt_mask=mask, tgt_is_causal=True).numpy()
    np.testing.assert_allclose(model.predict([source, target], verbose=0), expected, rtol=1e-4, atol=1e-5)
