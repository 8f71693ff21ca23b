"""A line search for the strong Wolfe conditions (Nocedal and Wright, 2006, algorithms 3.5 and 3.6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from prototorch.eager.tensor import Tensor

__all__ = ["Point", "search_strong_wolfe"]

DECREASE, CURVATURE = 1e-4, 0.9  # the constants c1 and c2 of the conditions
MIN_CHANGE = 1e-9  # of an element of the parameters, below which the search ends


class Point(NamedTuple):
    """A point on the line. step: its distance in directions; loss and gradient there; derivative: along the line."""

    step: float
    loss: float
    gradient: Tensor
    derivative: float


def search_strong_wolfe(
    evaluate: Callable[[float], Point], start: Point, step: float, length: float, max_rounds: int
) -> tuple[Point, int]:
    """A point that satisfies the conditions, or the best one of the search, and the number of evaluations.

    evaluate: the point at a step. start: that of step 0, whose derivative is negative. step: the first one to try.
    length: the largest absolute element of the direction. max_rounds: of evaluations after the first one.
    """
    points, count, is_done = _bracket(evaluate, start, step, max_rounds)
    rounds = count - 1
    has_stalled = False
    while not is_done and rounds < max_rounds:
        low, high = _by_loss(points)
        if abs(points[1].step - points[0].step) * length < MIN_CHANGE:
            break
        step, has_stalled = _inner_step(points, has_stalled)
        new = evaluate(step)
        count, rounds = count + 1, rounds + 1
        if new.loss > start.loss + DECREASE * step * start.derivative or new.loss >= points[low].loss:
            points[high] = new
            continue
        if abs(new.derivative) <= -CURVATURE * start.derivative:
            is_done = True
        elif new.derivative * (points[high].step - points[low].step) >= 0:
            points[high] = points[low]
        points[low] = new
        if is_done:
            return new, count
    return points[_by_loss(points)[0]], count


def _bracket(
    evaluate: Callable[[float], Point], start: Point, step: float, max_rounds: int
) -> tuple[list[Point], int, bool]:
    """Two points between which one satisfies the conditions, or one that does; the evaluations; whether it does."""
    before, new = start, evaluate(step)
    for rounds in range(max_rounds):
        if new.loss > start.loss + DECREASE * new.step * start.derivative or (rounds > 1 and new.loss >= before.loss):
            return [before, new], rounds + 1, False
        if abs(new.derivative) <= -CURVATURE * start.derivative:
            return [new], rounds + 1, True
        if new.derivative >= 0:
            return [before, new], rounds + 1, False
        bounds = new.step + 0.01 * (new.step - before.step), 10 * new.step
        before, new = new, evaluate(_cubic_minimum(before, new, bounds))
    return [start, new], max_rounds + 1, False


def _by_loss(points: list[Point]) -> tuple[int, int]:
    """The positions of the point with the lower and with the higher loss."""
    return (0, 1) if points[0].loss <= points[-1].loss else (1, 0)


def _inner_step(points: list[Point], has_stalled: bool) -> tuple[float, bool]:
    """A step between two points, and whether it lies near one of them: the second time it is moved inward."""
    first, last = sorted(p.step for p in points)
    step = _cubic_minimum(points[0], points[1], (first, last))
    margin = 0.1 * (last - first)
    if min(last - step, step - first) >= margin:
        return step, False
    if has_stalled or step >= last or step <= first:
        return (last - margin if abs(step - last) < abs(step - first) else first + margin), False
    return step, True


def _cubic_minimum(a: Point, b: Point, bounds: tuple[float, float]) -> float:
    """The minimum of the cubic through two points with their derivatives, inside of bounds."""
    if a.step > b.step:
        a, b = b, a
    low, high = bounds
    d1 = a.derivative + b.derivative - 3 * (a.loss - b.loss) / (a.step - b.step)
    square = d1 * d1 - a.derivative * b.derivative
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    step = b.step - (b.step - a.step) * ((b.derivative + d2 - d1) / (b.derivative - a.derivative + 2 * d2))
    return min(max(step, low), high)
