"""The callbacks of a fit, an evaluation or a prediction, and the order in which their hooks are called."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from prototorch.engine.storage.run_folder import RunFolder
from prototorch.errors import UsageError
from prototorch.schema.block_source import find_span
from prototorch.text.diagnostics import located
from prototorch.train.callbacks import Callback, LambdaCallback
from prototorch.train.log_names import LogNames

__all__ = ["CallbackList", "callback_list", "check_callbacks", "check_output_names"]

#: hooks that have another name in old code
_OTHER_NAMES = {"on_train_batch_begin": "on_batch_begin", "on_train_batch_end": "on_batch_end"}
_NEVER_RUN = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
_WITHOUT_LOGS = ("on_snapshot_request",)


def callback_list(callbacks: Any) -> list[Callback]:
    """The callbacks as a list; a single one needs no list. Raises UsageError for anything else."""
    if isinstance(callbacks, Callback):
        return [callbacks]
    if callbacks is None or isinstance(callbacks, str) or not isinstance(callbacks, Iterable):
        raise UsageError(f"callbacks must be a list of callbacks, not {callbacks!r}")
    items = list(callbacks)
    for callback in items:
        if not isinstance(callback, Callback):
            is_class = isinstance(callback, type) and issubclass(callback, Callback)
            hint = f"; {callback.__name__}() makes one" if is_class else ""
            raise UsageError(f"callbacks: {callback!r} is no prototorch.Callback{hint}")
    return items


def check_callbacks(callbacks: Sequence[Callback], names: LogNames) -> None:
    """Check the callbacks against the names that a fit will log. Raises UsageError for the first that does not fit."""
    for callback in callbacks:
        with located(find_span(callback, "monitor")):
            callback.check_logs(names)
        is_own = not type(callback).__module__.startswith("prototorch.") or isinstance(callback, LambdaCallback)
        if is_own and _overrides(callback, "on_epoch_end"):
            names = replace(names, is_open=True)


def check_output_names(callbacks: Sequence[Callback]) -> None:
    """Check the callbacks that a text declares for ``prototorch run``, whose folder has files of its own. Raises
    UsageError for the first that names one of them, and for two that write the same file; letter case does not
    distinguish names, as on some file systems."""
    writers: dict[str, str] = {}
    for callback in callbacks:
        for name in ("filepath", "filename"):
            path = getattr(callback, name, None)
            if not isinstance(path, str | os.PathLike):
                continue
            argument = f"{type(callback).__name__}.{name} {os.fspath(path)!r}"
            file = os.path.normpath(path).casefold()
            with located(find_span(callback, name)):
                if RunFolder.is_reserved(file):
                    raise UsageError(f"{argument} is the name of a file of the run folder itself: give another name")
                if file in writers:
                    raise UsageError(f"{argument} is the file that {writers[file]} writes too: give each its own name")
            writers[file] = argument


class CallbackList:
    """Several callbacks, called one after the other; only those that define a hook are called for it."""

    def __init__(self, callbacks: Sequence[Callback] | Callback, model: Any, params: dict[str, Any] | None = None):
        self.callbacks = callback_list(callbacks)
        self._hooks: dict[str, list[Callable[..., Any]]] = {}
        for callback in self.callbacks:
            for hook in (name for name in dir(Callback) if name.startswith("on_")):
                _check_signature(callback, hook)
            callback.set_model(model)
            callback.set_params(dict(params or {}))

    def call(self, hook: str, *args: Any) -> None:
        """Call a hook of each; ``logs``, the last argument, is an empty dict where it is not given."""
        hooks = self.hooks(hook)
        if hooks and hook not in _WITHOUT_LOGS and not (args and isinstance(args[-1], dict)):
            args = (*args, {})
        for function in hooks:
            function(*args)

    def hooks(self, hook: str) -> list[Callable[..., Any]]:
        """The functions that are called for a hook, found when it is first needed."""
        functions = self._hooks.get(hook)
        if functions is None:
            names = [hook, _OTHER_NAMES[hook]] if hook in _OTHER_NAMES else [hook]
            methods = [(c, next((n for n in names if _overrides(c, n)), None)) for c in self.callbacks]
            functions = self._hooks[hook] = [getattr(c, name) for c, name in methods if name is not None]
        return functions

    def overrides(self, hook: str) -> bool:
        """Whether any of them defines the hook, so that its logs are needed."""
        return bool(self.hooks(hook))


def _overrides(callback: Callback, hook: str) -> bool:
    return getattr(type(callback), hook) is not getattr(Callback, hook) or hook in vars(callback)


def _check_signature(callback: Callback, hook: str) -> None:
    """Raise UsageError for a hook that does not take the arguments that it is called with."""
    if not _overrides(callback, hook):
        return
    parameters = list(inspect.signature(getattr(Callback, hook)).parameters)[1:]
    try:
        function = getattr(callback, hook)
        inspect.signature(function).bind(*parameters)
    except ValueError:
        return  # a function whose signature is not known
    except TypeError as error:
        raise UsageError(
            f"{type(callback).__name__}.{hook} is called with ({', '.join(parameters)}), "
            f"but does not take them: {error}"
        ) from None
    if any(test(function) for test in _NEVER_RUN):
        raise UsageError(
            f"{type(callback).__name__}.{hook} is a coroutine or a generator, whose body a call does not run: expected "
            "a function; write `def` without `async` and without `yield` (asyncio.run(...) inside it runs a coroutine)"
        )
