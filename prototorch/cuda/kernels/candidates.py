"""Kernels that only a measurement on a GPU can prefer: they stand beside the ones in use until one has been made.

The environment variable PROTOTORCH_GPU_CANDIDATES chooses them: names joined by commas, or "all".
"""

from __future__ import annotations

import os

from prototorch.errors import BackendError

__all__ = ["CANDIDATES", "ENV_VAR", "candidate_enabled"]

ENV_VAR = "PROTOTORCH_GPU_CANDIDATES"
#: name -> what it replaces
CANDIDATES = {
    "recurrent_persistent": "LSTM, GRU and SimpleRNN of up to 128 units: one launch for all time steps",
    "row_per_warp": "layer norm and softmax: a warp for each row, instead of a block",
    "recurrent_step": "LSTM, GRU and SimpleRNN: one launch for each time step, instead of a product and a cell",
}


def candidate_enabled(name: str) -> bool:
    """Whether a candidate is chosen. Read when a kernel is prepared. Raises BackendError where the variable names a
    candidate that does not exist."""
    assert name in CANDIDATES, name
    enabled = {part.strip() for part in os.environ.get(ENV_VAR, "").split(",") if part.strip()}
    unknown = enabled - CANDIDATES.keys() - {"all"}
    if unknown:
        raise BackendError(
            f"{ENV_VAR}: expected names from {', '.join(sorted(CANDIDATES))}, or all; got {', '.join(sorted(unknown))}"
        )
    return bool(enabled & {name, "all"})
