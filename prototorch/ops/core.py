"""The `Op` class: the one concept that graphs, eager mode, derivatives and kernels share.

An op knows its name, its spec inference (specs in, specs out), a reference implementation over any array module, its
derivatives, expressed in ops, and facts about its cost and its behaviour. It knows nothing of model files, weights,
state, devices or memory. This module also exports what definitions and callers of ops need: the interpreters
(`prototorch.ops.interpreters`) and differentiation (`prototorch.ops.differentiation`). docs/ops.md is a tutorial.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from prototorch.errors import ShapeError
from prototorch.ops.differentiation import backward_pass, gradients
from prototorch.ops.facts import (
    INDEPENDENT,
    Attrs,
    BatchDependence,
    Dependences,
    PrecisionClass,
    Specs,
    ValueBounds,
    elementwise_batched,
    elementwise_uniform,
    total_bytes,
)
from prototorch.ops.interpreters import (
    Application,
    ArrayInterpreter,
    Interpreter,
    as_value,
    decomposition,
    find_interpreter,
    infer_spec_by_decomposition,
    resolve_dtype,
    run_on_arrays,
    set_default_interpreter,
    use_interpreter,
)
from prototorch.ops.operators import OPS
from prototorch.spec import FLOAT_DTYPES, Spec

__all__ = [
    "Application",
    "ArrayInterpreter",
    "Interpreter",
    "Op",
    "as_value",
    "backward_pass",
    "decomposition",
    "find_interpreter",
    "gradients",
    "infer_spec_by_decomposition",
    "resolve_dtype",
    "run_on_arrays",
    "set_default_interpreter",
    "use_interpreter",
]


class Op:
    """The base class of all ops. An instance is called like a function: inputs are positional, attributes are keyword
    arguments and hashable.

    A subclass defines `infer_spec` and `reference` (or `array_function`), or only `decompose`: its decomposition into
    other ops, from which the spec, the reference and the derivative follow. Such a *composite* op may still define its
    own `reference` or `derivatives` where that is faster. The name is the class's in snake case unless the class sets
    ``name``; creating an instance registers the op.
    """

    name: ClassVar[str] = ""
    #: the function of the array API that computes the op from its inputs and attributes; "" where there is none.
    array_function: ClassVar[str] = ""
    #: output index -> input index: the output may be written over that input, element by element.
    inplace: ClassVar[dict[int, int]] = {}
    #: one function per input, ``f(g, y, *inputs, **attrs)``; None where there is no derivative.
    derivatives: ClassVar[Sequence[Callable[..., Any] | None] | None] = None

    # Facts: declared here with their defaults, read by passes, cost models and kernels.

    #: whether each output element depends on the same element of the (broadcast) inputs only; such ops are fused.
    elementwise: ClassVar[bool] = False
    #: inputs of an op that is fused as an elementwise one which are read as a whole instead: dropout's random key.
    whole_inputs: ClassVar[tuple[int, ...]] = ()
    #: whether the output is a view of input 0 in another shape: no copy where the backend can make a view.
    is_view: ClassVar[bool] = False
    #: whether output 0 has the elements of input 0, each at least once, in another order or shape.
    moves_elements: ClassVar[bool] = False
    #: whether most of the time is multiply-adds, many for each element read: a matrix product or a convolution.
    is_product: ClassVar[bool] = False
    #: the axis of the channels in output 0, counted from the end where it is negative.
    channel_axis: ClassVar[int] = 1
    #: whether the result is random numbers; then sample n of a batch does not depend on the batch size.
    is_random: ClassVar[bool] = False
    #: whether it runs functions of a user, which see the context variables of the caller.
    calls_user_code: ClassVar[bool] = False
    #: whether recomputing the result is faster than reading it from memory again.
    cheap_to_recompute: ClassVar[bool] = False
    #: whether a plan decomposes the op where no kernel applies: the ops of `decompose` have kernels of their own.
    decompose_without_kernel: ClassVar[bool] = False
    #: how the op takes part in mixed precision.
    precision: ClassVar[PrecisionClass] = PrecisionClass.FOLLOWS

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(self) -> None:
        OPS[self.name] = self

    def apply_like(self, like: Any, **attrs: Any) -> Any:
        """As a call without inputs, by the interpreter of another value: on its device."""
        return find_interpreter((like,)).apply(self, (), attrs)

    def __call__(self, *inputs: Any, **attrs: Any) -> Any:
        for value in inputs:
            if getattr(value, "interpreter", None) is None:
                break
        else:
            if inputs:
                return inputs[0].interpreter.apply(self, inputs, attrs)
        interpreter = find_interpreter(inputs)
        dtypes = [v.dtype for v in inputs if getattr(v, "interpreter", None) is not None]
        like = next((t for t in dtypes if t in FLOAT_DTYPES), dtypes[0] if dtypes else None)
        return interpreter.apply(self, tuple(as_value(v, interpreter, like) for v in inputs), attrs)

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def infer_spec(self, *specs: Spec, **attrs: Any) -> Any:
        """The output spec, or a tuple of specs. Raises ShapeError for incompatible inputs, with the sizes.

        Default: that of the decomposition. Raises NotImplementedError for an op that has none.
        """
        self._require_decomposition("infer_spec")
        return infer_spec_by_decomposition(self, specs, attrs)

    @cached_property
    def attribute_names(self) -> frozenset[str] | None:
        """The attributes that an op has which computes on its own; None where its code does not list them."""
        own = type(self).reference is not Op.reference
        function = type(self).reference if own else type(self).decompose
        if not own and self.array_function:
            return frozenset()
        parameters = list(inspect.signature(function).parameters.values())
        if any(one.kind is one.VAR_KEYWORD for one in parameters):
            return None
        return frozenset(one.name for one in parameters[1:])

    def check_attributes(self, attrs: Mapping[str, Any]) -> None:
        """Raise ShapeError for an attribute that the op does not have."""
        names = self.attribute_names
        unknown = None if names is None else next((name for name in attrs if name not in names), None)
        if unknown is not None:
            raise self.shape_error(f"has no attribute {unknown!r:.60}")

    def reference(self, xp: Any, *arrays: Any, **attrs: Any) -> Any:
        """The op on arrays of the module ``xp``: always correct, not optimised. Returns new arrays.

        Default: the `array_function` of ``xp``, else the decomposition. Raises NotImplementedError for an op that has
        neither.
        """
        if self.array_function:
            return getattr(xp, self.array_function)(*arrays, **attrs)
        self._require_decomposition("reference, array_function")
        return run_on_arrays(lambda *inputs: self.decompose(*inputs, **attrs), *arrays, xp=xp)

    def decompose(self, *inputs: Any, **attrs: Any) -> Any:
        """The op expressed in other ops; None for an op that is not composite."""
        return None

    def _require_decomposition(self, other: str) -> None:
        if not self.is_composite:
            raise NotImplementedError(f"the class {type(self).__qualname__} of ops must define {other} or decompose")

    @property
    def is_composite(self) -> bool:
        """Whether the op is defined by its decomposition into other ops."""
        return type(self).decompose is not Op.decompose

    def array_view(self, array: Any, **attrs: Any) -> Any | None:
        """The output as a view of an array, over the same memory; None where there is none."""
        return None

    def attrs_before_transpose(self, specs: Specs, attrs: Attrs, order: tuple[int, ...]) -> Attrs | None:
        """The attributes with which the op, of inputs before a transposition, gives its outputs before it.

        ``specs`` are those of the inputs; inputs and outputs of ``len(order)`` axes are transposed by ``order``, others
        are as they are. None where the two do not commute. Default: the attributes of an elementwise op.
        """
        return attrs if self.elementwise and not self.is_random and not self.whole_inputs else None

    def inplace_map(self, attrs: Attrs) -> Mapping[int, int]:
        """The map `inplace` for these attributes."""
        return self.inplace

    def shape_error(self, message: str) -> ShapeError:
        """A ShapeError whose message begins with the op's name."""
        return ShapeError(f"{self.name}: {message}")

    def vjp(
        self,
        grads: Sequence[Any],
        outputs: Sequence[Any],
        inputs: Sequence[Any],
        needs: Sequence[bool],
        attrs: dict[str, Any],
    ) -> Sequence[Any]:
        """The vector-Jacobian product: gradients of the inputs that need one (else None), from those of the outputs.

        ``grads`` has one entry for each output, None where there is no gradient.
        """
        if self.derivatives is None:
            return self.vjp_by_decomposition(grads, inputs, needs, attrs)
        single = len(outputs) == 1
        g = grads[0] if single else tuple(grads)
        y = outputs[0] if single else tuple(outputs)
        results = [
            derivative(g, y, *inputs, **attrs) if need and derivative is not None else None
            for derivative, need in zip(self.derivatives, needs, strict=False)
        ]
        return results + [None] * (len(inputs) - len(results))

    def vjp_by_decomposition(
        self, grads: Sequence[Any], inputs: Sequence[Any], needs: Sequence[bool], attrs: dict[str, Any]
    ) -> Sequence[Any]:
        """As `vjp`, by the derivatives of the ops of the decomposition; all None for an op that is not composite."""
        if not self.is_composite:
            return [None] * len(inputs)
        targets = [v for v, need in zip(inputs, needs, strict=True) if need]
        input_grads = iter(gradients(lambda *_: self.decompose(*inputs, **attrs), *targets, seeds=grads))
        return [next(input_grads) if need else None for need in needs]

    def flops(self, ins: Specs, outs: Specs, attrs: Attrs) -> int:
        """Floating-point operations. Default: those of the decomposition, else one for each element of output 0.

        A multiply-add counts as two, an exponential as one; products count exactly, whatever their kernel does.
        """
        if not self.is_composite:
            return outs[0].size
        return sum(
            a.op.flops(tuple(v.spec for v in a.inputs), tuple(v.spec for v in a.outputs), a.attrs)
            for a in decomposition(self, ins, attrs)
        )

    def bytes_moved(self, ins: Specs, outs: Specs, attrs: Attrs) -> int:
        """Bytes read and written with an unlimited cache. Default: all inputs and outputs, each once."""
        return total_bytes(ins) + total_bytes(outs)

    def value_bounds(self, ins: Specs, attrs: Attrs) -> ValueBounds:
        """The inputs whose values have bounds: indices, divisors of integers, probabilities. An executor refuses a run
        with values outside; an op that is the adjoint of another, and reads the same values, declares none."""
        return {}

    def index_limit(self, ins: Specs, attrs: Attrs) -> int | None:
        """A number that all integers of the result are below, none being negative: positions along an axis. None: not
        known."""
        return None

    def preserves_batch(self, ins: Specs, outs: Specs, attrs: Attrs, dependences: Dependences) -> bool | None:
        """Whether the outputs are BATCHED, given how the inputs depend on the samples (at least one is BATCHED, none is
        MIXED). None: not known, so that the decomposition decides, if there is one. Default: by `elementwise`."""
        return elementwise_batched(ins, outs, dependences) if self.elementwise else None

    def unbatched_dependence(self, ins: Specs, out: Spec, attrs: Attrs, dependences: Dependences) -> BatchDependence:
        """How an output depends on the samples where no input does: INDEPENDENT or UNIFORM."""
        return elementwise_uniform(ins, out, dependences) if self.elementwise else INDEPENDENT
