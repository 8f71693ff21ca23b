"""Native kernels for the CPU: emitted as LLVM IR, compiled in the process, run by one thread pool.

`emit` and `arrays` are the language kernels are written in, `build` compiles, `team` runs, `call` joins them to the
dispatcher; `kernels/` holds one file a family.
"""

import importlib
import pkgutil
from typing import Any


def unavailable_reason() -> str | None:
    """Why the native level cannot be used here; None where it can. Registers the kernels the first time."""
    try:
        machine = importlib.import_module(f"{__name__}.cpu_features")
    except ImportError as exc:
        return f"llvmlite cannot be imported ({exc}): pip install llvmlite"
    why = machine.unavailable_reason()
    if why is None:
        kernels = importlib.import_module(f"{__name__}.kernels")
        for info in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
            importlib.import_module(info.name)
    return why


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
