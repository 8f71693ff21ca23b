"""``prototorch.nn.functional`` on symbols: in a graph as on tensors, with gradients; in files; as layers of a model."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

import prototorch as pt
from prototorch.eager.namespace import FUNCTIONS
from prototorch.errors import UsageError
from tests.cuda.fake.fake_cuda import use_fake_cuda

F, TF = pt.nn.functional, torch.nn.functional
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((2, 3, 8)).astype("float32"), RNG.standard_normal((2, 3, 8)).astype("float32")
W, B = RNG.standard_normal((5, 8)).astype("float32"), RNG.standard_normal(5).astype("float32")
KERNEL = RNG.standard_normal((4, 3, 3)).astype("float32")
LABELS = np.int64([[0, 1, 2, 0, 1, 2, 0, 1], [2, 2, 2, 1, 1, 1, 0, 0]])


#: module F, x, y and a function that makes a constant of the side
CASES = {
    **{name: lambda f, x, y, c, n=name: getattr(f, n)(x)
       for name in ("relu", "relu6", "elu", "selu", "celu", "gelu", "leaky_relu", "hardtanh", "hardsigmoid",
                    "hardswish", "silu", "mish", "softplus", "softsign", "softshrink", "hardshrink", "tanhshrink",
                    "logsigmoid", "sigmoid", "tanh")},
    "softmax": lambda f, x, y, c: f.softmax(x, dim=-1),
    "log_softmax": lambda f, x, y, c: f.log_softmax(x, 1),
    "glu": lambda f, x, y, c: f.glu(x),
    "threshold": lambda f, x, y, c: f.threshold(x, 0.1, 20.0),
    "linear": lambda f, x, y, c: f.linear(x, c(W), c(B)),
    "conv1d": lambda f, x, y, c: f.conv1d(x, c(KERNEL), padding=1),
    "max_pool1d": lambda f, x, y, c: f.max_pool1d(x, 2),
    "avg_pool1d": lambda f, x, y, c: f.avg_pool1d(x, 2),
    "layer_norm": lambda f, x, y, c: f.layer_norm(x, (8,)),
    "normalize": lambda f, x, y, c: f.normalize(x, dim=1),
    "pad": lambda f, x, y, c: f.pad(x, (1, 2)),
    "cosine_similarity": lambda f, x, y, c: f.cosine_similarity(x, y, dim=1),
    "mse_loss": lambda f, x, y, c: f.mse_loss(x, y),
    "mse_loss, sum": lambda f, x, y, c: f.mse_loss(x, y, reduction="sum"),
    "l1_loss": lambda f, x, y, c: f.l1_loss(x, y),
    "smooth_l1_loss": lambda f, x, y, c: f.smooth_l1_loss(x, y, beta=0.5),
    "huber_loss": lambda f, x, y, c: f.huber_loss(x, y, delta=0.5),
    "kl_div": lambda f, x, y, c: f.kl_div(f.log_softmax(x, -1), f.softmax(y, -1), reduction="batchmean"),
    "cross_entropy": lambda f, x, y, c: f.cross_entropy(x, c(LABELS)),
    "nll_loss": lambda f, x, y, c: f.nll_loss(f.log_softmax(x, 1), c(LABELS)),
    "binary_cross_entropy_with_logits": lambda f, x, y, c: f.binary_cross_entropy_with_logits(x, f.sigmoid(y)),
    "attention": lambda f, x, y, c: f.scaled_dot_product_attention(x, y, y),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_pytorchs(name):
    x, y = pt.Input((3, 8)), pt.Input((3, 8))
    there_x, there_y = (torch.tensor(a, requires_grad=True) for a in (X, Y))
    expected = CASES[name](TF, there_x, there_y, torch.tensor)
    (expected**2).sum().backward()
    symbol = CASES[name](F, x, y, pt.tensor)
    graph = pt.Graph([x, y], [symbol, *pt.gradients((symbol**2).sum(), [x, y])])
    value, gx, gy = graph(X, Y)
    np.testing.assert_allclose(value, expected.detach().numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(gx, there_x.grad.numpy(), rtol=2e-3, atol=1e-5)
    if there_y.grad is not None:
        np.testing.assert_allclose(gy, there_y.grad.numpy(), rtol=2e-3, atol=1e-5)


def test_weights_are_variables():
    x, w, b = pt.Input((8,)), pt.Variable(W), pt.Variable(B)
    np.testing.assert_allclose(pt.Graph(x, F.linear(x, w, b))(X[0]), X[0] @ W.T + B, rtol=1e-4, atol=1e-5)


def test_a_file_has_them_by_name(tmp_path):
    x, y = pt.Input((3, 8)), pt.Input((3, 8))
    loss = F.mse_loss(F.leaky_relu(F.conv1d(x, pt.Variable(KERNEL), padding=1), 0.2)[:, :3], F.softplus(y))
    graph = pt.Graph([x, y], loss)
    graph.save(tmp_path / "g.h5")
    np.testing.assert_array_equal(pt.Graph.load(tmp_path / "g.h5")(X, Y), graph(X, Y))


def test_in_a_model_they_are_layers():
    x = pt.Input((8,))
    model = pt.Model(x, F.tanh(F.relu(x)) + F.sigmoid(x))
    np.testing.assert_allclose(
        model.predict(X[0]), np.tanh(np.maximum(X[0], 0)) + 1 / (1 + np.exp(-X[0])), rtol=1e-4, atol=1e-6
    )
    with pytest.raises(UsageError, match=r"nn\.functional\.linear of symbolic tensors is possible in a pt\.Graph"):
        pt.Model(x, F.linear(x, pt.tensor(W)))


@pytest.mark.parametrize(
    "call",
    [lambda x: F.relu_(x), lambda x: F.relu(x, inplace=True), lambda x: F.elu(x, 1.0, True),
     lambda x: F.dropout(x, 0.5, True, True)],
)  # fmt: skip
def test_what_changes_its_argument_is_refused(call):
    with pytest.raises(UsageError, match="chang"):
        call(pt.Input((8,)))


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_running_statistics_are_variables(device):
    """As tensors they would change behind the graph's back, on a GPU a copy of them."""
    x = pt.Input((8,))
    with use_fake_cuda():
        mean, var = pt.zeros(8), pt.ones(8)
        with pytest.raises(UsageError, match=r"batch_norm would change a tensor \[8\] .* give it a pt\.Variable"):
            pt.Graph(x, F.batch_norm(x, mean, var, training=True), device=device)(X[0])
        assert mean.tolist() == [0] * 8
        there_mean, there_var = torch.zeros(8), torch.ones(8)
        mean, var = pt.Variable(mean, trainable=False), pt.Variable(var, trainable=False)
        graph = pt.Graph(x, F.batch_norm(x, mean, var, training=True), device=device)
        for _ in range(3):
            expected = TF.batch_norm(torch.tensor(X[0]), there_mean, there_var, training=True)
            np.testing.assert_allclose(graph(X[0]), expected.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(mean.value, there_mean.numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(var.value, there_var.numpy(), rtol=1e-5, atol=1e-6)


def test_wrong_arguments_are_refused_at_once():
    with pytest.raises(TypeError, match="unexpected keyword argument 'slope'"):
        F.leaky_relu(pt.Input((8,)), slope=0.2)


@pytest.mark.parametrize("module", [pt, F], ids=["prototorch", "nn.functional"])
def test_functions_are_pickled_by_name(module):
    functions = FUNCTIONS if module is pt else {name: getattr(F, name) for name in F.__all__}
    assert all(pickle.loads(pickle.dumps(f)) is f for f in functions.values())
