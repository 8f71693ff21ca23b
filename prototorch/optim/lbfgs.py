"""L-BFGS, as PyTorch defines it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prototorch import ops
from prototorch.eager.functions.joining import cat
from prototorch.eager.grad_mode import no_grad
from prototorch.eager.in_place import assign
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError
from prototorch.optim.formula_optimizer import check_range
from prototorch.optim.line_search import Point, search_strong_wolfe
from prototorch.optim.optimizer import Optimizer

__all__ = ["LBFGS"]

MIN_CURVATURE = 1e-10  # of a step and its change of gradient; less is not remembered


class LBFGS(Optimizer):
    """The quasi-Newton method of Broyden, Fletcher, Goldfarb and Shanno with limited memory (Nocedal, 1980).

    `step` needs a closure, which clears the gradients, computes the loss and its gradients, and returns the loss. All
    parameters are in one group.

    Args:
        params: as for `Optimizer`.
        lr: the length of a step, in directions; with a line search the first one that is tried.
        max_iter: iterations in a call of `step`.
        max_eval: evaluations of the closure in a call of `step`; default max_iter * 5 // 4.
        tolerance_grad: a call ends where no element of the gradient is larger.
        tolerance_change: a call ends where no parameter, or the loss, changes more.
        history_size: the number of steps that are remembered.
        line_search_fn: None, or "strong_wolfe".

    Raises UsageError for arguments out of range, and several groups.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ):
        check_range("lr", lr, 0)
        if line_search_fn not in (None, "strong_wolfe"):
            raise UsageError(f"line_search_fn is {line_search_fn!r}; it must be None or 'strong_wolfe'")
        if history_size < 1:
            raise UsageError(f"history_size must be at least 1, got {history_size}")
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        })  # fmt: skip
        if len(self.param_groups) != 1:
            raise UsageError(f"LBFGS takes one parameter group, got {len(self.param_groups)}")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to ``max_iter`` iterations. Gives the loss before them. Raises UsageError without a closure."""
        if closure is None:
            raise UsageError(
                "LBFGS.step needs a closure that computes the loss and its gradients, and returns the loss"
            )
        (group,) = self.param_groups
        state = self.state[group["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = self.evaluate(closure)
        state["func_evals"] += 1
        with no_grad():
            point = Point(0.0, float(first_loss), self._gradient(), 0.0)
            if _largest(point.gradient) > group["tolerance_grad"]:
                self._iterate(closure, group, state, point)
        return first_loss

    def _iterate(self, closure: Callable[[], Any], group: dict[str, Any], state: dict[str, Any], point: Point) -> None:
        evaluations, min_change = 1, group["tolerance_change"]
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            _set_direction(state, point, group["history_size"])
            lr, direction = float(group["lr"]), state["d"]
            step = min(1.0, 1.0 / float(ops.sum(ops.abs(point.gradient)))) * lr if state["n_iter"] == 1 else lr
            derivative = _dot(point.gradient, direction)
            state["prev_flat_grad"], state["prev_loss"], state["t"] = point.gradient, point.loss, step
            if derivative > -min_change:
                return
            last, used = point, 0
            if group["line_search_fn"] is None:
                self._move(direction, step)
                if iteration < group["max_iter"]:
                    point, used = self._point(closure, step, direction), 1
            else:
                begin = last._replace(step=0.0, derivative=derivative)
                point, used = search_strong_wolfe(
                    lambda t, d=direction: self._point_at(closure, t, d),  # type: ignore[misc]
                    begin,
                    step,
                    _largest(direction),
                    group["max_eval"] - evaluations,
                )
                step = point.step
                self._move(direction, step)
            state["t"] = step
            evaluations += used
            state["func_evals"] += used
            if (
                evaluations >= group["max_eval"]
                or _largest(point.gradient) <= group["tolerance_grad"]
                or _largest(direction) * abs(step) <= min_change
                or abs(point.loss - last.loss) < min_change
            ):
                return

    def _point(self, closure: Callable[[], Any], step: float, direction: Tensor) -> Point:
        loss = float(self.evaluate(closure))
        gradient = self._gradient()
        return Point(step, loss, gradient, _dot(gradient, direction))

    def _point_at(self, closure: Callable[[], Any], step: float, direction: Tensor) -> Point:
        """The point at a step in a direction; the parameters remain."""
        before = [p.detach().clone() for p in self._params()]
        self._move(direction, step)
        point = self._point(closure, step, direction)
        for p, value in zip(self._params(), before, strict=True):
            assign(p, value, "LBFGS.step")
        return point

    def _params(self) -> list[Tensor]:
        params: list[Tensor] = self.param_groups[0]["params"]
        return params

    def _gradient(self) -> Tensor:
        """All gradients as one vector, zeros where there is none."""
        parts = [p.interpreter.zeros(p.spec) if p.grad is None else p.grad.detach() for p in self._params()]
        return cat([part.reshape(-1) for part in parts])

    def _move(self, direction: Tensor, step: float) -> None:
        for p, part in zip(self._params(), self._parts(direction), strict=True):
            assign(p, p.detach() + part * step, "LBFGS.step")

    def _parts(self, vector: Tensor) -> Iterator[Tensor]:
        begin = 0
        for p in self._params():
            yield vector[begin : begin + p.spec.size].reshape(*p.spec.shape)
            begin += p.spec.size


def _set_direction(state: dict[str, Any], point: Point, history_size: int) -> None:
    """Set ``d`` to the direction of the next step, from the gradient and the steps that are remembered."""
    gradient = point.gradient
    if state["n_iter"] == 1:
        state.update(d=-gradient, old_dirs=[], old_stps=[], ro=[], H_diag=1)
        return
    change, step = gradient - state["prev_flat_grad"], state["d"] * state["t"]
    curvature = _dot(change, step)
    if curvature > MIN_CURVATURE:
        for name, value in (("old_dirs", change), ("old_stps", step), ("ro", 1.0 / curvature)):
            state[name] = [*state[name], value][-history_size:]
        state["H_diag"] = curvature / _dot(change, change)
    direction = -gradient
    history = list(zip(state["old_dirs"], state["old_stps"], state["ro"], strict=True))
    weights = []
    for change, step, inverse in reversed(history):
        weights.append(_dot(step, direction) * float(inverse))
        direction = direction - change * weights[-1]
    direction = direction * float(state["H_diag"])
    for (change, step, inverse), weight in zip(history, reversed(weights), strict=True):
        direction = direction + step * (weight - _dot(change, direction) * float(inverse))
    state["d"] = direction


def _dot(a: Tensor, b: Tensor) -> float:
    return float(ops.sum(a * b))


def _largest(vector: Tensor) -> float:
    return float(ops.max(ops.abs(vector)))
