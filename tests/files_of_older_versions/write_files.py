"""Writes the files of a version, and what that version computes with them: see README.md.

    PYTHONPATH=OLD_CHECKOUT python write_files.py FOLDER

It uses public names alone, which every version has, so that today's package runs it as well.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

import prototorch as pt

IMAGE_NET = """
name: "image_net"
param width: 4
input { name: "image"  shape: [1, 8, 8] }
preprocess { Rescaling { scale: 0.1  offset: -0.5 } }
block stage(filters) {
  Conv2D { filters: $filters  kernel_size: 3  padding: same }
  BatchNormalization {}
  LeakyReLU { negative_slope: 0.1 }
}
stage { name: "first"  filters: $width }
MaxPooling2D {}
repeat i in $range(1) { stage { name: "next${i}"  filters: $(2 * width) } }
Dropout { rate: 0.25 }
GlobalAveragePooling2D {}
Dense { name: "logits"  units: 3 }
compile {
  optimizer: Adam { learning_rate: ExponentialDecay { initial_learning_rate: 0.01  decay_steps: 2  decay_rate: 0.5 } }
  loss: SparseCategoricalCrossentropy { from_logits: true }  metrics: accuracy  seed: 3
}
fit { epochs: 3  batch_size: 4 }
"""
WORD_NET = """
name: "word_net"
input { name: "ids"  shape: [6]  dtype: int32 }
Embedding { input_dim: 11  output_dim: 4 }
LayerNormalization {}
Bidirectional { layer: LSTM { units: 3  return_sequences: true } }
MultiHeadAttention { num_heads: 2  key_dim: 2 }
GlobalAveragePooling1D {}
Dense { name: "scores"  units: 2  activation: softmax }
compile { optimizer: sgd  loss: CategoricalCrossentropy {}  seed: 4 }
"""
#: of the time when the channels of sequences were axis 1
SEQUENCE_NET = """
name: "sequence_net"
input { name: "x"  shape: [4, 10] }
block stage(filters) {
  Conv1D { filters: $filters  kernel_size: 3  padding: same }  # four channels of ten steps
  BatchNormalization {}
}
Normalization { mean: [0.1, 0.2, 0.3, 0.4]  variance: [1, 2, 3, 4] }
stage { filters: 6 }
Concatenate { branch { stage { filters: 2 } } branch { GroupNormalization { groups: 3 } } }
MaxPooling1D {}
Rescaling { scale: [1, 2, 3, 4, 5, 6, 7, 8] }
GlobalAveragePooling1D {}
Dense { name: "scores"  units: 2  activation: softmax }
compile { optimizer: sgd  loss: CategoricalCrossentropy {}  seed: 4 }
fit { epochs: 2  batch_size: 4 }
"""
CAFFE_NET = """
name: "caffe_net"
layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
  shape { dim: 4 dim: 1 dim: 6 dim: 6 } shape { dim: 4 }
  data_filler { type: "constant" value: 0.5 } data_filler { type: "constant" value: 1 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 3 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""
CAFFE_SOLVER = """
net: "caffe_net.prototxt"
base_lr: 0.05  lr_policy: "inv"  gamma: 0.1  power: 0.75
momentum: 0.9  weight_decay: 0.001  max_iter: 6  random_seed: 1  snapshot_prefix: "caffe_net"  display: 0
"""


def images() -> tuple[np.ndarray, np.ndarray]:
    """Twelve samples [1, 8, 8] with their classes."""
    rng = np.random.default_rng(0)
    return rng.uniform(0, 10, (12, 1, 8, 8)).astype("float32"), np.arange(12) % 3


def ids() -> tuple[np.ndarray, np.ndarray]:
    """Eight samples of six ids, with their targets, one-hot."""
    rng = np.random.default_rng(1)
    return rng.integers(0, 11, (8, 6)).astype("int32"), np.eye(2, dtype="float32")[np.arange(8) % 2]


def sequences() -> tuple[np.ndarray, np.ndarray]:
    """Eight samples of four channels and ten steps, with their targets, one-hot."""
    rng = np.random.default_rng(2)
    return rng.normal(size=(8, 4, 10)).astype("float32"), np.eye(2, dtype="float32")[np.arange(8) % 2]


class Module(pt.nn.Module):
    """A module of PyTorch's face."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = pt.nn.Conv2d(1, 2, 3)
        self.norm = pt.nn.BatchNorm2d(2)
        self.linear = pt.nn.Linear(72, 3)

    def forward(self, x: pt.Tensor) -> pt.Tensor:
        y = pt.relu(self.norm(self.conv(x)))
        return self.linear(pt.flatten(y, 1)).softmax(-1)


def write_models(results: dict[str, np.ndarray]) -> None:
    """The texts, as they are declared and as `to_text` writes them; a trained model, and a snapshot within a fit."""
    for name, text in (("image_net", IMAGE_NET), ("word_net", WORD_NET), ("sequence_net", SEQUENCE_NET)):
        Path(f"{name}.proto").write_text(text.lstrip(), encoding="utf-8")
        expanded = pt.load_model(f"{name}.proto").to_text()
        Path(f"{name}_expanded.proto").write_text(expanded, encoding="utf-8")
    x, y = ids()
    model = pt.load_model("word_net.proto")
    for _ in range(3):
        model.train_on_batch(x, y)
    model.save("word_net.h5")
    results["word_net"] = model.predict(x, verbose=0)
    model.train_on_batch(x, y)
    results["word_net_after_a_step"] = model.predict(x, verbose=0)

    x, y = sequences()
    model = pt.load_model("sequence_net.proto")
    for _ in range(3):
        model.train_on_batch(x, y)
    model.save("sequence_net.h5")
    results["sequence_net"] = model.predict(x, verbose=0)

    x, y = images()
    model = pt.load_model("image_net.proto")

    def save(epoch: int, logs: object) -> None:
        if epoch == 0:
            results["snapshot"] = model.predict(x, verbose=0)
            model.save("snapshot.h5")

    history = model.fit(x, y, verbose=0, callbacks=[pt.callbacks.LambdaCallback(on_epoch_end=save)])
    results["fit_loss"] = np.array(history.history["loss"])
    results |= {f"fit/{name}": np.array(array) for name, array in model.weights.items()}


def write_functions(results: dict[str, np.ndarray]) -> None:
    """A state dict, a compiled function and a static graph."""
    pt.manual_seed(5)
    module = Module()
    x = pt.from_numpy(images()[0])
    module(x)  # moves the running statistics
    module.eval()
    pt.save(module.state_dict(), "module.pth")
    with pt.no_grad():
        pt.compile(module).save("function.h5", x)
        results["module"] = module(x).numpy()

    features, target = pt.Input((3,)), pt.Input((2,))
    symbol = pt.Input((4, 10))
    layer = pt.layers.Conv1D(2, 3, name="conv")
    convolution = pt.Graph([symbol], layer(symbol))
    results["convolution"] = np.asarray(convolution(sequences()[0]))
    convolution.save("convolution.h5")

    w = pt.Variable(np.arange(6, dtype="float32").reshape(3, 2) / 10)
    loss = ((pt.tanh(features @ w) - target) ** 2).mean()
    graph = pt.Graph([features, target], loss, updates=[pt.optimizers.Adam(0.1).minimize(loss)])
    data = np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3), np.ones((4, 2), "float32")
    graph(*data)
    graph.save("graph.h5")
    results["graph"] = np.array([graph(*data) for _ in range(3)])


def write_caffe(results: dict[str, np.ndarray]) -> None:
    """A net and a solver of Caffe, their snapshot after three iterations, the weights after three more."""
    Path("caffe_net.prototxt").write_text(CAFFE_NET.lstrip(), encoding="utf-8")
    Path("caffe_solver.prototxt").write_text(CAFFE_SOLVER.lstrip(), encoding="utf-8")
    solver = pt.caffe.get_solver("caffe_solver.prototxt")
    solver.step(3)
    solver.snapshot()
    results |= {f"caffe/3/{n}/{i}": np.array(b.data) for n, bs in solver.net.params.items() for i, b in enumerate(bs)}
    solver.step(3)
    results |= {f"caffe/6/{n}/{i}": np.array(b.data) for n, bs in solver.net.params.items() for i, b in enumerate(bs)}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    numbers: dict[str, np.ndarray] = {}
    write_models(numbers)
    write_functions(numbers)
    write_caffe(numbers)
    np.savez_compressed("results.npz", **numbers)
