"""Hooks of a module's backward pass: its inputs and outputs pass through identities whose gradients are reported."""

from __future__ import annotations

from typing import Any

from prototorch.eager.function import Function
from prototorch.eager.tensor import Tensor
from prototorch.errors import UsageError
from prototorch.nn.hooks import map_tensors, module_hooks

__all__ = ["BackwardHooks"]


class _Identity(Function):
    """Gives its tensors; ``report(gradients)`` gives their gradients back, or others."""

    @staticmethod
    def forward(ctx: Any, report: Any, *tensors: Tensor) -> Any:
        ctx.report = report
        return tuple(t.detach() for t in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return (None, *ctx.report(gradients))


class BackwardHooks:
    """One call of a module that has backward hooks.

    Its pre hooks get the gradients of the outputs, and may return others; its full hooks get those of the inputs and
    of the outputs, and may return others of the inputs.
    """

    def __init__(self, module: Any):
        self.module = module
        self.output_gradients: tuple[Any, ...] = ()
        self.has_input_gradient = False
        self.input_count = 0

    def on_inputs(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The inputs, whose gradients go through the hooks."""

        def wrap(tensors: list[Tensor]) -> list[Tensor]:
            self.input_count = len(tensors)
            positions = [k for k, t in enumerate(tensors) if t.requires_grad]
            self.has_input_gradient = bool(positions)
            if not positions:
                return tensors

            def report(gradients: tuple[Any, ...]) -> tuple[Any, ...]:
                full: list[Any] = [None] * len(tensors)
                for k, g in zip(positions, gradients, strict=True):
                    full[k] = g
                result = self._run(tuple(full))
                return tuple(result[k] for k in positions)

            results = list(tensors)
            for k, t in zip(positions, _Identity.apply(report, *(tensors[k] for k in positions)), strict=True):
                results[k] = t
            return results

        hooked_inputs: tuple[Any, ...] = map_tensors(wrap, inputs)
        return hooked_inputs

    def on_outputs(self, outputs: Any) -> Any:
        """The outputs, whose gradients go through the pre hooks."""

        def wrap(tensors: list[Tensor]) -> list[Tensor]:
            positions = [k for k, t in enumerate(tensors) if t.requires_grad]
            if not positions:
                return tensors

            def report(gradients: tuple[Any, ...]) -> tuple[Any, ...]:
                full: list[Any] = [None] * len(tensors)
                for k, g in zip(positions, gradients, strict=True):
                    full[k] = g
                grad_output = tuple(full)
                for hook, _ in module_hooks(self.module, "backward_pre"):
                    changed = hook(self.module, grad_output)
                    if changed is not None:
                        grad_output = _as_tuple(changed, len(tensors), "the outputs", self.module)
                self.output_gradients = grad_output
                if not self.has_input_gradient:
                    self._run((None,) * self.input_count)
                return tuple(grad_output[k] for k in positions)

            results = list(tensors)
            for k, t in zip(positions, _Identity.apply(report, *(tensors[k] for k in positions)), strict=True):
                results[k] = t
            return results

        return map_tensors(wrap, outputs)

    def _run(self, grad_input: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook, _ in module_hooks(self.module, "backward"):
            changed = hook(self.module, grad_input, self.output_gradients)
            if changed is not None:
                grad_input = _as_tuple(changed, len(grad_input), "the inputs", self.module)
        return grad_input


def _as_tuple(value: Any, count: int, what: str, module: Any) -> tuple[Any, ...]:
    values = value if isinstance(value, tuple) else (value,)
    if len(values) != count:
        raise UsageError(
            f"a backward hook of {type(module).__name__} must return None or the gradients of {what}, {count}, not "
            f"{len(values)}"
        )
    return values
