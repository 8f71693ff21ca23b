"""Compile CUDA C++ for GPUs that are not there, by CuPy's own call of NVRTC."""

from __future__ import annotations

#: Ampere, Hopper, Blackwell (consumer)
TARGETS = ("sm_80", "sm_90", "sm_120")


def compile_cubin(source: str, target: str) -> bytes:
    """The cubin. Raises CuPy's CompileException with NVRTC's log."""
    import cupy

    cupy.cuda.nvrtc.getVersion()  # loads NVRTC with its built-in functions
    from cupy.cuda import compiler

    program = compiler._NVRTCProgram(source, "kernel.cu", (), (), method="cubin")
    made = program.compile((f"-arch={target}", "-std=c++17"), None)
    return made[0] if isinstance(made, tuple) else made
