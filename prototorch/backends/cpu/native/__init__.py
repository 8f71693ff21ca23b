"""Native kernels for the CPU: emitted as LLVM IR, compiled in the process, run by one thread team.

`emit` and `arrays` are the language kernels are written in, `build` compiles, `team` runs, `call` joins them to the
dispatcher; `kernels/` holds one file a family.
"""

import importlib
import pkgutil


def missing() -> str | None:
    """Why there is no native level here; None where there is. Enters the kernels the first time."""
    try:
        machine = importlib.import_module(f"{__name__}.machine")
    except ImportError as exc:
        return f"llvmlite cannot be imported ({exc}): pip install llvmlite"
    why = machine.unusable()
    if why is None:
        kernels = importlib.import_module(f"{__name__}.kernels")
        for info in pkgutil.iter_modules(kernels.__path__):
            importlib.import_module(f"{kernels.__name__}.{info.name}")
    return why
