"""First checks of kernels that stand beside the ones in use until a GPU has preferred them: values, and both times.

The switch is PROTOTORCH_GPU_CANDIDATES (prototorch/cuda/kernels/candidates.py).
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.gpu_calls import Report
from benchmarks.gpu_row_kernels import compare_row_kernels
from benchmarks.gpu_row_sums import compare_row_sums
from benchmarks.gpu_sequences import compare_sequences


def sequences(report: Report, folder: Path) -> None:
    """LSTM and GRU with one launch a time step, beside two, and beside cuDNN's RNN."""
    compare_sequences(report)


def row_sums(report: Report, folder: Path) -> None:
    """The gradient of an embedding: rows added at their indices, in a fixed order, beside PyTorch's."""
    compare_row_sums(report)


def row_kernels(report: Report, folder: Path) -> None:
    """Layer norm and softmax by a warp a row, beside a block a row."""
    compare_row_kernels(report)


CANDIDATE_CHECKS = (row_kernels, sequences, row_sums)
