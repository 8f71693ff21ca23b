"""The native and the NumPy level learn alike: the same nets to the same accuracy on real pictures."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from prototorch.base.package_files import package_folder

pytest.importorskip("llvmlite", reason="the native level needs llvmlite")

LENET = "lenet"
RESNET = """
name: "small_resnet"
include "blocks/resnet.proto"
input { name: "image"  shape: [1, 28, 28] }
preprocess { Rescaling { scale: $(1 / 64)  offset: -2 } }
conv_bn { filters: 16  kernel: 3 }
ReLU { }
basic { width: 16 }
basic { width: 32  stride: 2  project: true }
basic { width: 64  stride: 2  project: true }
GlobalAveragePooling2D { }
Dense { units: 10  name: "logits" }
compile {
  loss: sparse_categorical_crossentropy { from_logits: true }
  optimizer: SGD { learning_rate: 0.05  momentum: 0.9  nesterov: true  l2: 1e-4 }
  metrics: [accuracy]
}
fit { data { source: "fashion-mnist-mini" }  epochs: 3  batch_size: 64 }
"""
TRAIN = """
import json, sys
import prototorch as pt
model = pt.load_model(sys.argv[1])
history = model.fit(epochs=3, verbose=0)
print(json.dumps({name: values[-1] for name, values in history.history.items()}))
"""


def learned(model, level, place):
    """The last epoch's figures of a training on one level, in a process of its own."""
    told = dict(os.environ, PROTOTORCH_CPU=level)
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, str(model)], env=told, cwd=place, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lenet", "small_resnet"])
def test_both_levels_reach_the_same_accuracy(name, tmp_path):
    """Rounding parts two trainings within some steps, so only what was learned can be compared. A thousand pictures
    of 80 to 90 % accuracy scatter by 1.1 % themselves; over seeds, the last epoch's figures scatter by 1 to 2 %."""
    model = LENET
    if name == "small_resnet":
        model = tmp_path / "small_resnet.proto"
        model.write_text(RESNET)
        shutil.copytree(package_folder("models") / "blocks", tmp_path / "blocks")
    native, plain = (learned(model, level, tmp_path) for level in ("native", "numpy"))
    for figures in (native, plain):
        assert figures["val_accuracy"] > 0.75
    assert abs(native["val_accuracy"] - plain["val_accuracy"]) < 0.05
    assert abs(native["accuracy"] - plain["accuracy"]) < 0.03
    assert abs(native["loss"] - plain["loss"]) < 0.1 * plain["loss"] + 0.02
    print(name, native, plain)
