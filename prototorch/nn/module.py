"""The base class of all modules: a forward in Python over parameters, buffers and other modules, as in PyTorch.

class Classifier(pt.Module):
    def __init__(self):
        super().__init__()
        self.hidden = pt.nn.Linear(784, 64)
        self.head = pt.layers.Dense(10)               # layers of the declared models are children, too
        self.scale = pt.nn.Parameter(pt.tensor(1.0))

    def forward(self, x):
        return self.head(pt.ops.relu(self.hidden(x))) * self.scale
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from prototorch.eager.grad_mode import no_grad
from prototorch.eager.layer_call import is_training, training
from prototorch.eager.tensor import Tensor
from prototorch.errors import MissingMethodError, UsageError
from prototorch.nn.backward_hooks import BackwardHooks
from prototorch.nn.conversion import TensorConversion
from prototorch.nn.hooks import HookHandle, module_hooks
from prototorch.nn.state_dict import ModuleState

__all__ = ["Module"]


class Module(ModuleState):
    """A part of a network, with parameters, buffers and other modules; subclasses define `forward`.

    An attribute that is an `nn.Parameter`, an `nn.Buffer`, a module or a layer of `prototorch.layers` belongs to it:
    `parameters`, `state_dict`, `to`, `train` and the others reach it. A new module is in the training phase.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        if args or options:
            arguments = ", ".join([*(type(a).__name__ for a in args), *(f"{k}=" for k in options)])
            raise UsageError(
                f"{type(self).__name__} passes arguments to Module.__init__, which takes none: {arguments}"
            )

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """The computation; subclasses define it. A module is called, ``module(x)``, so that its hooks run."""
        raise MissingMethodError(f"{type(self).__name__} does not define forward")

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Run the hooks and `forward`, in the module's phase."""
        phase = self.training
        if is_training() is phase:
            if "_hook_lists" not in self.__dict__:
                return self.forward(*inputs, **options)
            return self._call_with_hooks(inputs, options)
        with training(phase):
            return self._call_with_hooks(inputs, options)

    def _call_with_hooks(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
        outputs: Any = None
        called_hooks: set[int] = set()
        try:
            for hook, setting in module_hooks(self, "forward_pre"):
                if setting.get("with_kwargs"):
                    result = hook(self, inputs, options)
                    if result is not None:
                        if not isinstance(result, tuple) or len(result) != 2:
                            raise UsageError(
                                "a forward pre hook with keyword arguments must return None, or a tuple "
                                f"(args, kwargs), not {type(result).__name__}"
                            )
                        inputs, options = result
                else:
                    result = hook(self, inputs)
                    inputs = inputs if result is None else result if isinstance(result, tuple) else (result,)
            reports = module_hooks(self, "backward") or module_hooks(self, "backward_pre")
            reporting = BackwardHooks(self) if reports else None
            if reporting is not None:
                inputs = reporting.on_inputs(inputs)
            outputs = self.forward(*inputs, **options)
            for hook, setting in module_hooks(self, "forward"):
                called_hooks.add(id(hook))
                result = _call_forward_hook(hook, setting, self, inputs, options, outputs)
                outputs = outputs if result is None else result
            return outputs if reporting is None else reporting.on_outputs(outputs)
        except Exception:
            for hook, setting in module_hooks(self, "forward"):
                if setting.get("always_call") and id(hook) not in called_hooks:
                    _call_forward_hook(hook, setting, self, inputs, options, outputs)
            raise

    # ------------------------------------------------------------------ hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle:
        """Call ``hook(module, args)`` before `forward`; what it returns, if not None, are the arguments.

        with_kwargs: ``hook(module, args, kwargs)``, which returns None or both. Gives a handle with ``remove()``.
        """
        return module_hooks(self, "forward_pre").add(hook, prepend, with_kwargs=with_kwargs)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> HookHandle:
        """Call ``hook(module, args, output)`` after `forward`; what it returns, if not None, is the output.

        with_kwargs: ``hook(module, args, kwargs, output)``. always_call: also where `forward` raises an error.
        """
        return module_hooks(self, "forward").add(hook, prepend, with_kwargs=with_kwargs, always_call=always_call)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> HookHandle:
        """Call ``hook(module, grad_output)`` before the module's backward pass; it may return other gradients."""
        return module_hooks(self, "backward_pre").add(hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> HookHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the module's inputs are known; it may
        return other ones of the inputs."""
        return module_hooks(self, "backward").add(hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """The same as `register_full_backward_hook` (PyTorch's older one saw the module's last op alone)."""
        return self.register_full_backward_hook(hook)

    # ------------------------------------------------------------------ phase and gradients

    def train(self, mode: bool = True) -> Self:
        """Set the phase of this module and of all in it: training, or inference with ``mode=False``."""
        if not isinstance(mode, bool):
            raise UsageError(f"train(mode): expected True or False, got {mode!r:.60}")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        """The inference phase: `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set ``requires_grad`` of all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients to None, or to zero with ``set_to_none=False``."""
        for parameter in self.parameters():
            if parameter.grad is not None:
                parameter.grad = None if set_to_none else parameter.grad.interpreter.zeros(parameter.grad.spec)

    def losses(self) -> list[Tensor]:
        """The extra losses of the last calls of its layers of `prototorch.layers` (`ActivityRegularization`)."""
        return [loss for module in self.modules() for loss in module._own_losses()]

    def _own_losses(self) -> list[Tensor]:
        return []

    # ------------------------------------------------------------------ devices and element types

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the elements of all parameters, their gradients and buffers by those of ``fn(tensor)``."""
        for child in self.children() if recurse else ():
            child._apply(fn)
        with no_grad():
            for parameter in self._parameters.values():
                if parameter is not None:
                    parameter.data = fn(parameter.detach())
                    if parameter.grad is not None:
                        parameter.grad = fn(parameter.grad.detach())
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **options: Any) -> Self:
        """Move the parameters and buffers to a device, and cast those of floating-point elements to a dtype, in place:
        ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(tensor)``. Gives the module.

        Raises UsageError for a dtype that is not floating-point, and where an argument is neither.
        """
        return self._apply(TensorConversion.parse(*args, **options))

    def cpu(self) -> Self:
        """Move it to the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        """Move it to a GPU, by default the first one."""
        return self.to("cuda" if device is None else device)

    def float(self) -> Self:
        """Cast floating-point parameters and buffers to float32."""
        return self.to(dtype="float32")

    def double(self) -> Self:
        """Cast floating-point parameters and buffers to float64."""
        return self.to(dtype="float64")

    def half(self) -> Self:
        """Cast floating-point parameters and buffers to float16."""
        return self.to(dtype="float16")

    def bfloat16(self) -> Self:
        """Cast floating-point parameters and buffers to bfloat16."""
        return self.to(dtype="bfloat16")

    def type(self, dst_type: Any) -> Self:
        """Cast all parameters and buffers to a dtype."""
        return self._apply(TensorConversion(dtype=dst_type, casts_all=True))

    def share_memory(self) -> Self:
        """Accepted as in PyTorch. The memory is that of this process: threads share it as it is."""
        return self

    # ------------------------------------------------------------------ text

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What `repr` shows of the module itself, such as its sizes."""
        return ""

    def __repr__(self) -> str:
        own = self.extra_repr()
        lines = own.split("\n") if own else []
        children = [f"({name}): {_indent(repr(child))}" for name, child in self._modules.items()]
        if not children:
            return f"{self._get_name()}({own})" if len(lines) <= 1 else _block(self._get_name(), lines)
        return _block(self._get_name(), [*lines, *children])


def _call_forward_hook(
    hook: Callable[..., Any],
    setting: dict[str, Any],
    module: Module,
    inputs: tuple[Any, ...],
    options: dict[str, Any],
    outputs: Any,
) -> Any:
    if setting.get("with_kwargs"):
        return hook(module, inputs, options, outputs)
    return hook(module, inputs, outputs)


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")


def _block(name: str, lines: list[str]) -> str:
    return f"{name}(\n  " + "\n  ".join(lines) + "\n)"
