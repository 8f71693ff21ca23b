"""kill -9 anywhere in a training, started again until it is done: bit for bit the result of an undisturbed one."""

import os
import random
import signal
import time

import numpy as np
import pytest

import prototorch as pt
from prototorch.engine.storage import container
from prototorch.engine.storage.run_folder import RunFolder
from prototorch.model.load import load_saved
from prototorch.train.callbacks import Callback

TEXT = """
name: "tiny"
input { name: "x"  shape: [6] }
Dense { units: 8  activation: relu }
Dropout { rate: 0.3 }
BatchNormalization { }
Dense { units: 2 }
compile { loss: mse  optimizer: Adam { learning_rate: 0.01 }  metrics: [mae] }
fit { epochs: 12  batch_size: 8 }
"""
X = np.random.default_rng(5).standard_normal((64, 6)).astype("f4")
Y = np.random.default_rng(6).standard_normal((64, 2)).astype("f4")


class Snapshots(Callback):
    """The whole state after each epoch, as the command line keeps it."""

    display = True

    def __init__(self, folder):
        self.folder = folder

    def on_epoch_end(self, epoch, logs=None):
        self.folder.save_snapshot(self.model, self.model.trainer.step)


def train(text, directory):
    """One life of the trainer: goes on from the newest snapshot, if there is one."""
    with RunFolder(directory) as folder:
        newest = folder.newest_snapshot()
        model = pt.load_model(text) if newest is None else load_saved(newest)
        model.fit(X, Y, callbacks=[Snapshots(folder)], verbose=0, resume=newest is not None)
        model.save_weights(directory / "done.h5")


def weights_of(directory):
    return {name: array.tobytes() for name, array in container.read(directory / "done.h5").arrays.items()}


@pytest.mark.parametrize("runs", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_a_training_that_is_killed_again_and_again(tmp_path, runs):
    text = tmp_path / "tiny.proto"
    text.write_text(TEXT)
    train(text, tmp_path / "whole")
    expected = weights_of(tmp_path / "whole")
    dice = random.Random(runs)
    kills = 0
    for number in range(runs):
        directory = tmp_path / f"run{number}"
        for attempt in range(100):
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    train(text, directory)
                    status = 0
                finally:
                    os._exit(status)
            if attempt < 10:
                time.sleep(dice.uniform(0.02, 0.2))
                os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
            kills += status == signal.SIGKILL
            if status == 0:
                break
            assert status == signal.SIGKILL
        assert weights_of(directory) == expected
    assert kills > 0
