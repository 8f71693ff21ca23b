"""The number of threads is the one that was asked for, whatever else a model sets up."""

from __future__ import annotations

import prototorch as pt
from prototorch.backends.cpu import pool


def test_compiling_leaves_the_threads_as_they_were_said():
    before = pool.threads()
    try:
        pool.set_threads(3)
        model = pt.load_model("mlp")
        assert model.trainer.program.backend.threads == pool.threads() == 3
        model.compile(loss=model.compile_block.loss, threads=2)
        assert model.trainer.program.backend.threads == pool.threads() == 2
    finally:
        pool.set_threads(before)
