"""The dispatcher: the one place that decides whether a special kernel or the plain body runs an op.

A kernel is a function ``prepare(ins, outs, attrs)`` of specs that gives back a runner ``run(inputs, outputs)``, which
fills the given output arrays, or None: "not mine". It is prepared once for a step of a plan and called many times; it
keeps nothing between calls but scratch memory. It writes every element of its outputs. Where the op's `inplace` map
allows it, an output may be the same memory as that input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from threading import Event
from typing import Any, NamedTuple

from prototorch.backends import host_memory
from prototorch.backends.precision import PrecisionPolicy
from prototorch.ops.core import Op
from prototorch.spec import Spec

KernelFn = Callable[[Sequence[Any], Sequence[Any]], None]
PrepareFn = Callable[[tuple[Spec, ...], tuple[Spec, ...], dict[str, Any]], KernelFn | None]

#: a step without its arrays: the op, the specs of its inputs and outputs, its attributes
StepSpec = tuple[Op, tuple[Spec, ...], tuple[Spec, ...], Mapping[str, Any]]

Predicate = Callable[[tuple[Spec, ...], dict[str, Any]], bool]

#: level -> op name -> kernels, the first that takes the specs wins.
_KERNELS: dict[str, dict[str, list[PrepareFn]]] = {}
_SPECIALIZED: set[PrepareFn] = set()
#: level -> op name -> what it may be in a fused group: "elementwise", "anchor" or "tail".
_FUSION_ROLES: dict[str, dict[str, str]] = {}
#: level -> op name -> how it takes part in the layout channels_last.
_LAYOUT_SUPPORT: dict[str, dict[str, LayoutSupport]] = {}


class LayoutSupport(NamedTuple):
    """How a level's kernels for an op deal with values in the layout channels_last.

    ``how``: "prefers" (its inputs are brought into the layout) or "follows" (only where one of them is already).
    ``ins`` and ``outs`` are the inputs and outputs that it is about (None: all of the rank of the largest), the others
    (weights, vectors) stay plain. ``when(specs of the inputs, attrs)`` says for which uses of the op that holds.
    """

    policy: str
    ins: tuple[int, ...] | None = None
    outs: tuple[int, ...] | None = None
    when: Predicate | None = None


def kernel(level: str, *names: str, special: bool = False) -> Callable[[PrepareFn], PrepareFn]:
    """Enter a kernel for the ops of these names at a level (``"numpy"``, ``"native"``, ``"cuda"``).

    A ``special`` kernel takes few uses of an op and is the best at those: it is asked before the others of its level.
    """

    def enter(prepare: PrepareFn) -> PrepareFn:
        if special:
            _SPECIALIZED.add(prepare)
        for name in names:
            known = _KERNELS.setdefault(level, {}).setdefault(name, [])
            known.append(prepare)
            known.sort(key=lambda one: one not in _SPECIALIZED)  # otherwise in the order of entry
        return prepare

    return enter


def register_fusion_role(level: str, kind: str, *names: str) -> None:
    """Say that a level's kernel for ``fused`` takes these ops: as "elementwise" members of a group, as the "anchor"
    that a group may begin with, or as the "tail", a reduction, that it may end with."""
    _FUSION_ROLES.setdefault(level, {}).update(dict.fromkeys(names, kind))


def register_channels_last(level: str, how: str, *names: str, ins: tuple[int, ...] | None = None,
                  outs: tuple[int, ...] | None = None, when: Predicate | None = None) -> None:  # fmt: skip
    """Say that a level's kernels for these ops know the layout channels_last; see `LayoutSupport`."""
    _LAYOUT_SUPPORT.setdefault(level, {}).update(dict.fromkeys(names, LayoutSupport(how, ins, outs, when)))


class PackRequest(NamedTuple):
    """A kernel wants an operand in an order of its own: which input it is, how many numbers it then takes, and what
    else wants the same: uses of equal ``form`` (None: this one alone). ``level``: the only one whose kernel reads it
    so, where it was chosen."""

    operand: int
    size: int
    layout_key: Any = None
    level: str = ""


#: level -> op name -> functions of specs and attributes that say so, or None.
_PACK_REQUESTS: dict[str, dict[str, list[Callable[..., PackRequest | None]]]] = {}


def prepacks(level: str, *names: str, special: bool = False) -> Callable[[Any], Any]:
    """Enter a function ``(ins, outs, attrs)`` that says which operand of these ops a level's kernel would rather have
    arranged before (see `prototorch.ops.prepack`), or None. ``special`` as for `kernel`."""

    def enter(asked: Callable[..., PackRequest | None]) -> Callable[..., PackRequest | None]:
        for name in names:
            known = _PACK_REQUESTS.setdefault(level, {}).setdefault(name, [])
            known.insert(0 if special else len(known), asked)
        return asked

    return enter


def pack_request_at(level: str, name: str, ins: tuple[Spec, ...], outs: tuple[Spec, ...],
                   attrs: Mapping[str, Any]) -> PackRequest | None:  # fmt: skip
    """What the kernels of one level want to have arranged; see `Backend.pack_request`."""
    asked = _PACK_REQUESTS.get(level, {}).get(name, ())
    return next((found for one in asked if (found := one(ins, outs, dict(attrs))) is not None), None)


class KernelChoice(NamedTuple):
    """Which kernel runs a step. ``family`` names the way of computing, the same on every machine: what the runner says
    of itself by an attribute of this name, else the file that the kernel is in."""

    level: str
    family: str


class Selection(NamedTuple):
    """A kernel that takes a step: its runner, and what it is."""

    kernel_fn: KernelFn
    choice: KernelChoice


def _kernel_family(level: str, candidate: PrepareFn) -> str:
    return candidate.__module__.rsplit(".", 1)[-1].removeprefix(f"{level}_")


class Backend:
    """An array module, the levels of kernels that are tried in turn, and memory.

    ``running()`` gives the context in which runners are to be called. ``device`` is a GPU's (see backends/cuda), None
    where arrays lie in the host's own memory; ``input_copies`` how often a plan's inputs lie in this backend's memory.
    """

    device: Any = None
    input_copies = 1
    #: whether kernels are made for the sizes of a step, so that another size costs time
    is_shape_specialized = False
    #: bytes that stay in the caches from one step to the next; where they are known, plans without a backward pass go
    #: through a large batch slice by slice
    cache_bytes = 0
    #: how values are stored and whether the loss is scaled
    precision = PrecisionPolicy("fp32")

    def __init__(self, name: str, xp: Any, levels: Sequence[str], threads: int = 1,
                 run_context: Callable[[], AbstractContextManager[Any]] = nullcontext):  # fmt: skip
        self.name, self.xp, self.levels, self.threads, self.run_context = name, xp, tuple(levels), threads, run_context

    def prepare(self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]) -> KernelFn:
        """The fastest runner there is for this op on these specs; the plain body if there is no other."""
        taken = self._select(op, ins, outs, attrs)
        return self.reference(op, attrs) if taken is None else taken.kernel_fn

    def _select(
        self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]
    ) -> Selection | None:
        """The kernel that runs an op, of those that take it; None where none does."""
        return next(self._applicable_kernels(op, ins, outs, attrs, self.levels), None)

    def _applicable_kernels(self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any],
                   levels: Iterable[str]) -> Iterator[Selection]:  # fmt: skip
        """The kernels of some levels that take an op."""
        for level, candidate in self._candidates(op, (*ins, *outs), levels):
            runner = candidate(ins, outs, dict(attrs))
            if runner is not None:
                yield Selection(
                    runner, KernelChoice(level, getattr(runner, "family", "") or _kernel_family(level, candidate))
                )

    def _candidates(self, op: Op, specs: Iterable[Spec],
                    levels: Iterable[str] | None = None) -> Iterator[tuple[str, PrepareFn]]:  # fmt: skip
        """The kernels that may be asked, with their levels: where a spec has a layout, those that know it."""
        laid = any(s.layout is not None for s in specs)
        for level in self.levels if levels is None else levels:
            if not laid or op.name in _LAYOUT_SUPPORT.get(level, {}):
                for candidate in _KERNELS.get(level, {}).get(op.name, ()):
                    yield level, candidate

    def has_kernel(self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]) -> bool:
        """Whether a kernel takes it: it does not fall to the plain body."""
        return self.choose_kernel(op, ins, outs, attrs).level != "plain"

    def fusion_role(self, name: str) -> str | None:
        """What an op may be in a fused group: "elementwise", "anchor", "tail", or None."""
        return next((k for level in self.levels if (k := _FUSION_ROLES.get(level, {}).get(name))), None)

    def pack_request(self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...],
                    attrs: Mapping[str, Any]) -> PackRequest | None:  # fmt: skip
        """Which operand the kernel for an op would rather have arranged before; None where there is nothing to gain."""
        asked = (pack_request_at(level, op.name, ins, outs, attrs) for level in self.levels)
        return next((found for found in asked if found is not None), None)

    def layout_support(self, name: str) -> LayoutSupport | None:
        """How an op takes part in the layout channels_last; None for one that only knows plain memory."""
        return next((k for level in self.levels if (k := _LAYOUT_SUPPORT.get(level, {}).get(name))), None)

    @property
    def can_fuse(self) -> bool:
        """Whether plans for this backend are laid out and fused."""
        return any(level in _FUSION_ROLES or level in _LAYOUT_SUPPORT for level in self.levels)

    def kernel_level(self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]) -> str:
        """The level that `prepare` would take, for `show --plan` and the tests."""
        return self.choose_kernel(op, ins, outs, attrs).level

    def choose_kernel(
        self, op: Op, ins: tuple[Spec, ...], outs: tuple[Spec, ...], attrs: Mapping[str, Any]
    ) -> KernelChoice:
        """The level and the family of the kernel that `prepare` would take."""
        taken = self._select(op, ins, outs, attrs)
        return KernelChoice("plain", "") if taken is None else taken.choice

    def reference(self, op: Op, attrs: Mapping[str, Any]) -> KernelFn:
        """The op's plain body as a runner: it makes new arrays, which are copied into the outputs."""
        attrs = dict(attrs)
        body, xp = op.reference, self.xp

        def run(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            made = body(xp, *inputs, **attrs)
            if not isinstance(made, tuple):
                made = (made,)
            for target, source in zip(outputs, made, strict=True):
                target[...] = source

        return run

    def prepare_all(self, steps: Sequence[tuple[KernelFn, Sequence[Any], Sequence[Any]]]) -> None:
        """Told of all of a plan's prepared runners with their arrays before any is strung or run: what they need can be
        made for all together."""

    def warm_up(self, runners: Sequence[KernelFn]) -> None:
        """Make and keep what prepared runners will need once they are bound, as far as it can be kept."""

    def precompile(self, runners: Sequence[KernelFn], stop: Event) -> None:
        """As `warm`, beside what is running and in its favour; until ``stop`` is set."""

    def scratch_bytes(self, steps: Iterable[StepSpec]) -> int | None:
        """Bytes of memory that the kernels of a plan's steps, (op, inputs, outputs, attrs), take beside its arena; None
        where that is not known before they run."""
        return None

    def compile_counts(self) -> tuple[int, int]:
        """Kernels that were compiled in this process, and kernels that were found on disk."""
        return 0, 0

    def link_steps(self, steps: Sequence[tuple[KernelFn, Sequence[Any], Sequence[Any]]]) -> list[Callable[[], None]]:
        """Prepared runners bound to arrays as calls without arguments. Neighbours that a backend can run without coming
        back between them become one call."""
        return [partial(run, ins, outs) for run, ins, outs in steps]

    def empty(self, spec: Spec) -> Any:
        """An array of this spec with undefined elements."""
        return self.xp.empty(spec.shape, dtype=spec.dtype)

    def allocate(self, count: int) -> Any:
        """Memory for a plan's buffers: an array of bytes whose address is a multiple of 64."""
        raw = self.xp.empty(count + 64, dtype="uint8")
        skip = -raw.ctypes.data % 64
        return raw[skip : skip + count]

    def free_bytes(self) -> int | None:
        """Bytes of memory that can still be taken where this backend's arrays live; None where nothing tells."""
        return host_memory.free_bytes()

    def asarray(self, array: Any, dtype: str | None = None) -> Any:
        """The array on this backend."""
        return self.xp.asarray(array, dtype=dtype)

    def to_numpy(self, array: Any) -> Any:
        """The array as NumPy's."""
        return array
