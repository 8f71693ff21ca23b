"""Random programs of views, in-place changes, indexed writes and arithmetic, run here and by PyTorch.

The elements of all tensors, the gradients, and whether a program raises must be the same; where both raise, also the
statement at which they do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

import prototorch as pt
from tests.eager.random_keys import as_ours, random_key

ERRORS = (IndexError, ValueError, RuntimeError, TypeError)


@dataclass
class Program:
    """Statements on a list of tensors: each a description and a function (module, tensors) -> None."""

    rng: np.random.Generator
    leaves: list[np.ndarray]
    statements: list[tuple[str, Callable[[Any, list[Any]], None]]] = field(default_factory=list)

    def run(self, module: Any) -> dict[str, Any]:
        """The elements of all tensors, and the gradients of the leaves; or the statement that raised."""
        leaves = [module.tensor(a) for a in self.leaves]
        for leaf in leaves[:-1]:  # the last one has no gradient
            leaf.requires_grad_()
        tensors = [leaf * 1 for leaf in leaves]
        for number, (_, statement) in enumerate(self.statements):
            try:
                statement(module, tensors)
            except ERRORS as exc:
                return {"raised": number, "message": str(exc)}
        total = sum((t * t).sum() for t in tensors)
        try:
            total.backward()
        except ERRORS as exc:
            return {"raised": "backward", "message": str(exc)}
        return {"tensors": [t.detach().numpy() for t in tensors],
                "gradients": [None if leaf.grad is None else leaf.grad.numpy() for leaf in leaves],
                "views": [t._base is not None for t in tensors]}  # fmt: skip


def statements_for(program: Program, shapes: list[tuple[int, ...]]) -> None:
    """Append one random statement to the program, chosen for tensors of these shapes."""
    rng = program.rng
    k = int(rng.integers(len(shapes)))
    shape = shapes[k]
    ndim = len(shape)
    kind = rng.choice(["view", "view", "key", "in_place", "in_place", "write", "write", "arithmetic", "no_grad"])
    if kind == "view":
        name, args = _view(rng, shape)
        _append(program, f"t{len(shapes)} = t{k}.{name}{args}", lambda m, ts: ts.append(getattr(ts[k], name)(*args)))
    elif kind == "key":
        key = random_key(rng, shape) if ndim else ()
        _append(program, f"t{len(shapes)} = t{k}[{key}]", lambda m, ts: ts.append(ts[k][_key(m, key)]))
    elif kind == "in_place":
        other = int(rng.integers(len(shapes)))
        name, arg = [("mul_", 1.5), ("add_", -0.5), ("add_", other), ("mul_", other), ("copy_", other), ("zero_", None),
                     ("fill_", 2.0), ("clamp_", 0.0), ("exp_", None), ("neg_", None)][rng.integers(10)]  # fmt: skip
        is_tensor = isinstance(arg, int)

        def change(m: Any, ts: list[Any]) -> None:
            args = () if arg is None else (ts[arg] if is_tensor else arg,)
            getattr(ts[k], name)(*args)

        _append(program, f"t{k}.{name}({f't{arg}' if is_tensor else arg})", change)
    elif kind == "write":
        key = random_key(rng, shape) if ndim else ()
        other, adds = int(rng.integers(len(shapes))), rng.random() < 0.4

        def write(m: Any, ts: list[Any]) -> None:
            value = ts[other] if other != k else 0.25
            if adds:
                ts[k][_key(m, key)] += value
            else:
                ts[k][_key(m, key)] = value

        _append(program, f"t{k}[{key}] {'+=' if adds else '='} t{other}", write)
    elif kind == "arithmetic":
        other = int(rng.integers(len(shapes)))
        _append(program, f"t{len(shapes)} = t{k} * t{other} + t{k}", lambda m, ts: ts.append(ts[k] * ts[other] + ts[k]))
    else:

        def silently(m: Any, ts: list[Any]) -> None:
            with m.no_grad():
                ts[k].mul_(0.5)

        _append(program, f"no_grad: t{k}.mul_(0.5)", silently)


def _append(program: Program, text: str, statement: Callable[[Any, list[Any]], None]) -> None:
    program.statements.append((text, statement))


def _key(module: Any, key: Any) -> Any:
    return as_ours(key) if module is pt else key


def _view(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[str, tuple[Any, ...]]:
    ndim, size = len(shape), int(np.prod(shape))
    axis = int(rng.integers(max(ndim, 1)))
    n = shape[axis] if ndim else 1
    start = int(rng.integers(0, n + 1))
    every: list[tuple[str, tuple[Any, ...]]] = [
        ("reshape", (-1,)), ("view", (size,)), ("unsqueeze", (axis,)), ("squeeze", ()), ("detach", ()), ("clone", ()),
        ("view_as_itself", ()), ("t", ()), ("flatten", ()), ("contiguous", ()),
        ("transpose", (0, ndim - 1 if ndim else 0)), ("narrow", (axis, start, int(rng.integers(0, n - start + 1)))),
        ("select", (axis, int(rng.integers(-n, n)) if n else 0)), ("expand", (2, *shape)), ("diagonal", ()),
        ("unfold", (axis, min(2, n), 1)), ("permute", tuple(int(a) for a in rng.permutation(ndim))),
        ("movedim", (0, -1)),
    ]  # fmt: skip
    name, args = every[rng.integers(len(every))]
    return ("reshape", (shape,)) if name == "view_as_itself" else (name, args)


def random_program(seed: int, length: int) -> Program:
    """A program, with statements chosen by the shapes that PyTorch's tensors have at each point."""
    rng = np.random.default_rng(seed)
    shapes = [[(4,), (3, 4), (2, 3, 4), (2, 2)][rng.integers(4)] for _ in range(3)]
    program = Program(rng, [rng.standard_normal(s) for s in shapes])
    for _ in range(length):
        tensors = [torch.tensor(a) for a in program.leaves]
        try:
            for _, statement in program.statements:
                statement(torch, tensors)
        except ERRORS:
            break
        statements_for(program, [tuple(t.shape) for t in tensors])
    return program


def _is_known_difference(got: dict[str, Any], want: dict[str, Any]) -> bool:
    """Where PyTorch refuses what is well defined, and what is refused here alone."""
    theirs = (
        "refer to a single memory location",  # the value overlaps what it is written to: it is read first here
        "has been modified by an inplace operation",  # x.mul_(x): what the derivative reads is copied first here
        "a leaf Variable that requires grad",  # a view from before its tensor had a gradient
    )
    ours = (
        "several elements of the tensor share one memory location",  # PyTorch writes to unfold()'s overlapping windows
        "was not computed from any tensor",  # all has been overwritten by numbers: PyTorch's gradient is zeros
    )
    refused_there = any(words in want.get("message", "") for words in theirs)
    return refused_there or any(words in got.get("message", "") for words in ours)


def compare(seed: int, length: int) -> None:
    program = random_program(seed, length)
    want, got = program.run(torch), program.run(pt)
    text = "\n".join([f"shapes {[a.shape for a in program.leaves]}", *(s for s, _ in program.statements)])
    about = f"seed {seed}\n{text}\nPyTorch: {want.get('message')}\nhere: {got.get('message')}"
    if got.get("raised") != want.get("raised"):
        assert _is_known_difference(got, want), about
        return
    if "raised" in want:
        return
    for a, b in zip(got["tensors"], want["tensors"], strict=True):
        assert a.shape == b.shape, about
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12, err_msg=about)
    for a, b in zip(got["gradients"], want["gradients"], strict=True):
        # where everything has been overwritten, PyTorch has zeros or no gradient, by the function that did it
        a, b = (np.zeros(()) if g is None else g for g in (a, b))
        np.testing.assert_allclose(*np.broadcast_arrays(a, b), rtol=1e-9, atol=1e-11, err_msg=about)
    assert got["views"] == want["views"], about


@pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors")
@pytest.mark.parametrize("seed", range(150))
def test_random_programs(seed):
    compare(seed, 8)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors")
@pytest.mark.parametrize("block", range(20))
def test_many_random_programs(block):
    for seed in range(1000 + 200 * block, 1200 + 200 * block):
        compare(seed, 12)
