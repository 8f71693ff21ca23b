"""The phases of a step, and the names of the inputs that a step's plan has beside those of the net.

``target:NAME`` and ``weight:NAME`` are the targets and the sample weights of an output; ``learning_rate`` (float32
scalar) and ``step`` (int64 scalar, from 1) are read by the optimizer, ``learning_rate:NAME`` by one of several and
``step:A+B`` for weights that the steps A and B change; ``counted`` is the sample mask of a plan whose
batches may be padded: 1 for each sample of the batch, 0 for padding. ``gradient:NAME`` is the gradient of a weight, of
a plan that only updates.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "ACCUMULATE",
    "GRADIENT_PREFIX",
    "LEARNING_RATE",
    "OUTPUT_PREFIX",
    "PREDICT",
    "SAMPLE_MASK",
    "SAMPLE_WEIGHT_PREFIX",
    "STEP",
    "TARGET_PREFIX",
    "TEST",
    "TRAIN",
    "is_training",
    "kind_of",
    "random_key",
    "step_of",
    "training_phase",
]

TRAIN, TEST, PREDICT = "train", "test", "predict"
#: a training step that adds its gradients to those of a later one, which updates the weights
ACCUMULATE = "accumulate"
TARGET_PREFIX, SAMPLE_WEIGHT_PREFIX = "target:", "weight:"
GRADIENT_PREFIX = "gradient:"
#: in front of the names of a net's values among the outputs of a training step
OUTPUT_PREFIX = "output:"
LEARNING_RATE, STEP, SAMPLE_MASK = "learning_rate", "step", "counted"


def is_training(phase: str) -> bool:
    """Whether a phase is one of training steps."""
    return kind_of(phase) in (TRAIN, ACCUMULATE)


def training_phase(kind: str, step: str) -> str:
    """The phase of a training step of this name, where steps alternate: ``train:critic``. kind: `TRAIN`, or
    `ACCUMULATE`; step: "" where all steps are the same."""
    return f"{kind}:{step}" if step else kind


def kind_of(phase: str) -> str:
    """The phase without the name of a step."""
    return phase.partition(":")[0]


def step_of(phase: str) -> str:
    """The name of the step in a phase, "" where all steps are the same."""
    return phase.partition(":")[2]


def random_key(seed: int, step: int, number: int = 0) -> np.ndarray:
    """The random key of a step: uint64 [2], the seed and a counter. number: of a batch that is not trained on, of
    which each draws other numbers."""
    return np.array([seed & (2**64 - 1), step + (number << 40)], np.uint64)
