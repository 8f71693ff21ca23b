"""Compiled functions in files: `CompiledFunction.save`, and `load_compiled`, which runs one without its code."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np

from prototorch.compiler.impure_reads import refuse_impure_reads
from prototorch.compiler.saved_graph import check_spec, decode_graph, encode_graph, unify
from prototorch.compiler.signature import collect_tensors
from prototorch.compiler.trace import TraceInterpreter
from prototorch.eager.grad_mode import no_grad
from prototorch.eager.interpreter import cpu_interpreter
from prototorch.eager.random_keys import default_keys
from prototorch.eager.tensor import Tensor
from prototorch.eager.tracing import active_trace
from prototorch.engine.backends.devices import backend_for
from prototorch.engine.backends.host_memory import check_free
from prototorch.engine.storage import container
from prototorch.engine.storage.checkpoint import check_ending
from prototorch.errors import ModelFileError, ShapeError, UsageError
from prototorch.graph.plan import make_plan
from prototorch.runtime.executor import make_executor
from prototorch.spec import Spec

__all__ = ["LoadedFunction", "load_compiled", "save_function"]

FORMAT_VERSION, KIND = 1, "compiled function"


class _Recording:
    """One trace of a function, as JSON with arrays."""

    def __init__(self, function: Callable[..., Any], specs: Sequence[Spec], name: str):
        trace = TraceInterpreter(cpu_interpreter())
        arguments = [trace.input(f"argument:{k}", spec) for k, spec in enumerate(specs)]
        token = active_trace.set(trace)
        try:
            with no_grad(), refuse_impure_reads():
                value = function(*arguments)
            tensors = collect_tensors(value)
            outputs = [trace.cell(t).value for t in tensors]
        finally:
            active_trace.reset(token)
            trace.restore_grads()
        if trace.numbers:
            raise UsageError(f"{name} has a step of an optimizer, which no file can hold: save what it trains")
        if any(a.array.version for a in arguments):
            raise UsageError(f"{name} changes an argument in place, which a saved function does not: clone() it first")
        self.arrays: dict[str, np.ndarray] = {}
        captured = [c for c in trace.captured.values() if c.cell.base is None]
        self.states = {c.name: c.array for c in captured}
        updates = {}
        for c in captured:
            if c.cell.version:
                if not c.is_state:
                    raise UsageError(f"{name} changes a tensor whose elements are not next to each other: save a copy")
                updates[c.name] = c.cell.value
        numbers = {id(t): k for k, t in enumerate(tensors)}
        self.json = {
            "graph": encode_graph(trace.graph, outputs, updates, self._store),
            "arguments": [{"shape": list(s.shape), "dtype": s.dtype} for s in specs],
            "keys": [n for _, names in trace.keys.values() for n in names],
            "states": sorted(self.states), "result": _template(value, numbers),
        }  # fmt: skip

    def _store(self, array: np.ndarray) -> str:
        path = f"constant/{len(self.arrays)}"
        self.arrays[path] = np.ascontiguousarray(array).reshape(array.shape)
        return path


def _template(value: Any, numbers: dict[int, int]) -> Any:
    if isinstance(value, Tensor):
        return {"tensor": numbers[id(value)]}
    if isinstance(value, list | tuple):
        return {
            type(value).__name__ if type(value) in (list, tuple) else "tuple": [_template(v, numbers) for v in value]
        }
    if isinstance(value, dict):
        return {"dict": [[str(k), _template(v, numbers)] for k, v in value.items()]}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    raise UsageError(f"a function that is saved returns tensors, numbers and nests of them, not {type(value).__name__}")


def _fill(template: Any, tensors: Sequence[Tensor]) -> Any:
    (kind, value), *_ = template.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "dict":
        return {k: _fill(v, tensors) for k, v in value}
    if kind in ("list", "tuple"):
        items = [_fill(v, tensors) for v in value]
        return items if kind == "list" else tuple(items)
    return value


def _check_template(template: Any, count: int) -> None:
    """Raise ValueError for what is no template of a result of so many tensors."""
    if not isinstance(template, dict) or len(template) != 1:
        raise ValueError(f"a part of its result is {template!r:.60}")
    ((kind, value),) = template.items()
    if kind in ("list", "tuple", "dict") and isinstance(value, list):
        pairs = [v if isinstance(v, list) else [] for v in value] if kind == "dict" else [["", v] for v in value]
        if all(len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
            for _, one in pairs:
                _check_template(one, count)
            return
    is_number = kind == "tensor" and type(value) is int and 0 <= value < count
    if not is_number and not (kind == "value" and (value is None or isinstance(value, bool | int | float | str))):
        raise ValueError(f"a part of its result is {template!r:.60}")


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def save_function(function: Callable[..., Any], specs: Sequence[Spec], path: str | PathLike[str], name: str) -> None:
    """Trace a function for arguments of these specs, and write its graph with the tensors that it reads.

    Where the first axis of the first argument is a batch, and the graph is the same for another size of it, the file
    serves every size. Raises UsageError for what a file cannot hold.
    """
    check_ending(path)
    one = _Recording(function, specs, name)
    content, is_batched = one.json, False
    if specs and specs[0].shape and specs[0].shape[0] > 1:
        size = specs[0].shape[0]
        grown = [Spec((size + 3, *s.shape[1:]), s.dtype) if s.shape[:1] == (size,) else s for s in specs]
        try:
            other = _Recording(function, grown, name)
            if all(
                np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
                for a, b in zip(one.arrays.values(), other.arrays.values(), strict=True)
            ):
                content, is_batched = unify(one.json, other.json, (size, size + 3)), True
        except (ValueError, ShapeError):
            pass
    arrays = {**one.arrays, **{f"state/{k}": np.ascontiguousarray(a).reshape(a.shape) for k, a in one.states.items()}}
    meta: dict[str, str | int | float | bool] = {
        "format": FORMAT_VERSION, "kind": KIND, "name": name, "batched": int(is_batched),
        "function": json.dumps(content, allow_nan=False),
    }  # fmt: skip
    container.write(path, {p.replace(":", "_"): a for p, a in arrays.items()}, meta)


class LoadedFunction:
    """A function of a file: called with tensors, it gives tensors; nothing of the code that made it is needed.

    states: the tensors that it reads and changes, by name.
    """

    def __init__(self, path: str, content: Any, arrays: dict[str, np.ndarray], name: str, is_batched: bool):
        self.path, self.name, self._content, self._is_batched = path, name, content, is_batched
        self._constants = {p: a for p, a in arrays.items() if p.startswith("constant/")}
        self.states = {n: np.array(arrays[f"state/{n}".replace(":", "_")]) for n in content["states"]}
        self._runs: dict[tuple[Spec, ...], Any] = {}
        arguments, keys = content["arguments"], content["keys"]
        if not isinstance(arguments, list) or not _are_names(keys) or (is_batched and not arguments):
            raise ValueError("its arguments are no list, or its keys no names")
        if is_batched and arguments[0]["shape"][:1] != [{"batch": [1, 0]}]:
            raise ValueError("the first size of its first argument is not that of the batch, for any of which it is")
        self._input_names = {*(f"argument:{k}" for k in range(len(arguments))), *keys, *self.states}
        _check_template(content["result"], len(content["graph"]["outputs"]))
        self._run_for(self._specs(None if not is_batched else 2))

    def _specs(self, batch: int | None) -> tuple[Spec, ...]:
        def size(n: Any) -> int:
            return n["batch"][0] * (batch or 0) + n["batch"][1] if isinstance(n, dict) else int(n)

        return tuple(check_spec(Spec(tuple(map(size, a["shape"])), a["dtype"])) for a in self._content["arguments"])

    def _run_for(self, specs: tuple[Spec, ...]) -> Any:
        run = self._runs.get(specs)
        if run is None:
            batch = specs[0].shape[0] if self._is_batched else None
            if self._specs(batch) != specs:
                expected = ", ".join(str(s) for s in self._specs(batch))
                more = " (the first axis may have any size)" if self._is_batched else ""
                raise ShapeError(
                    f"{self.name}: expected {expected}{more}, got {', '.join(str(s) for s in specs)}; for other shapes "
                    "save it with arguments of those"
                )
            results = decode_graph(self._content["graph"], self._constants, batch)
            backend = backend_for("cpu")
            outputs = {f"{k}": v for k, v in enumerate(results.outputs)}
            plan = make_plan(results.graph, outputs, results.updates, backend)
            inputs = sum(value.spec.nbytes for value in plan.inputs.values())
            check_free(inputs + plan.arena_bytes + plan.persistent_bytes, self.name)
            declared = {f"argument:{k}": spec for k, spec in enumerate(specs)}
            for name, value in plan.inputs.items():
                if name not in self._input_names:
                    raise ModelFileError(f"{self.path}: nothing gives its input {name!r:.40}")
                if value.spec != declared.get(name, value.spec):
                    raise ModelFileError(f"{self.path}: {name!r:.40} is {value.spec}, declared as {declared[name]}")
            for name, value in plan.states.items():
                array = self.states.get(name)
                if array is None or Spec(array.shape, array.dtype.name) != value.spec:
                    raise ModelFileError(f"{self.path}: the state {name!r:.40} is missing or of another shape")
            run = self._runs[specs] = make_executor(plan, backend, self.states), tuple(plan.inputs)
        return run

    def __call__(self, *args: Any) -> Any:
        """Run it. Raises UsageError and ShapeError for arguments of another kind than it was saved for."""
        count = len(self._content["arguments"])
        if len(args) != count:
            raise UsageError(f"{self.name} takes {count} tensors, got {len(args)} arguments")
        arrays = [np.asarray(a.array if isinstance(a, Tensor) else a) for a in args]
        execute, needed = self._run_for(tuple(Spec(a.shape, a.dtype.name) for a in arrays))
        inputs: dict[str, Any] = {f"argument:{k}": a for k, a in enumerate(arrays)}
        inputs.update((name, default_keys.next_key()) for name in self._content["keys"])
        inputs.update(self.states)
        outputs = execute({name: inputs[name] for name in needed})
        host = cpu_interpreter()
        return _fill(self._content["result"], [host.wrap(np.array(outputs[f"{k}"])) for k in range(len(outputs))])

    def __repr__(self) -> str:
        return f"<compiled function {self.name} of {self.path}>"


def load_compiled(path: str | PathLike[str]) -> LoadedFunction:
    """The function of a file that `CompiledFunction.save` has written. Nothing in the file is executed but the ops that
    it names. Raises ModelFileError for a damaged file, or one of another kind."""
    contents = container.read(path)
    if contents.meta.get("kind") != KIND:
        kind = contents.meta.get("kind")
        raise ModelFileError(f"{path}: expected a compiled function, got a file of the kind {kind!r:.40}")
    version = contents.meta.get("format")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelFileError(f"{path}: a function of format {version!r:.20}; this prototorch reads {FORMAT_VERSION}")
    try:
        content = json.loads(str(contents.meta["function"]))
        return LoadedFunction(
            str(path), content, contents.arrays, str(contents.meta.get("name")), contents.meta.get("batched") == 1
        )
    except (ModelFileError, ShapeError) as error:
        raise ModelFileError(f"{path}: {error}") from error
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise ModelFileError(f"{path}: it cannot be read: {type(error).__name__}: {error!s:.200}") from error
