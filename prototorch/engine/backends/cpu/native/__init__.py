"""Native kernels for the CPU: emitted as LLVM IR, compiled in the process, run by one thread pool.

`emit` and `arrays` are the language kernels are written in, `build` compiles, `team` runs, `call` joins them to the
dispatcher; `kernels/` holds one file a family.
"""

import importlib
from typing import Any

#: the levels of these kernels; the last two are candidates of autotuning
LEVELS = ("winograd", "native", "smaller", "measured")


def unavailable_reason() -> str | None:
    """Why the native level cannot be used here; None where it can."""
    try:
        machine = importlib.import_module(f"{__name__}.cpu_features")
    except ImportError as exc:
        return f"llvmlite cannot be imported ({exc}): pip install llvmlite"
    reason: str | None = machine.unavailable_reason()
    return reason


def describe() -> dict[str, Any]:
    """Facts about the native kernels on this machine, for `prototorch devices`."""
    why = unavailable_reason()
    if why is not None:
        return {"native kernels": f"none: {why}"}
    machine, kernel_cache = (importlib.import_module(f"{__name__}.{name}") for name in ("cpu_features", "kernel_cache"))
    name, _ = machine.host_cpu()
    return {
        "processor": name,
        "vectors": f"{machine.vector_bits()} bits",
        "llvmlite": importlib.import_module("llvmlite").__version__,
        "kept kernels": kernel_cache.describe(),
    }
