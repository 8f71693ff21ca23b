"""LLVM IR to object code: in this process, and as a script, in worker processes.

llvmlite holds one lock while LLVM works, so threads cannot compile side by side. `processes` starts this file as a
script instead, several times, and feeds them through pipes: they import llvmlite alone, and end when their input does.

A request is two lengths (32 bits each) and then as many bytes: the processor, as JSON, and the IR. The answer is one
length and the object code.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from functools import cache
from typing import IO

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])  # where llvmlite is

from llvmlite import binding as llvm

LENGTH = struct.Struct("<I")


@cache
def target_machine(name: str, features: str) -> llvm.TargetMachine:
    """The target machine of a processor."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=name, features=features, opt=3, reloc="pic", codemodel="jitdefault", jit=True
    )


def compile_ir(ir: str, name: str, features: str) -> bytes:
    """The object code of a module of LLVM IR."""
    target = target_machine(name, features)
    module = llvm.parse_assembly(ir)
    module.triple, module.data_layout = target.triple, str(target.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False  # kernels emit vector instructions
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(target.emit_object(module))


def encode_request(ir: str, name: str, features: str) -> bytes:
    """The request to a worker."""
    target, text = json.dumps([name, features]).encode(), ir.encode()
    return LENGTH.pack(len(target)) + LENGTH.pack(len(text)) + target + text


def read_exactly(file: IO[bytes], count: int) -> bytes:
    """Exactly ``count`` bytes of a pipe. Raises EOFError where it ends before."""
    data = file.read(count)
    if len(data) != count:
        raise EOFError
    return data


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until the pipe is closed."""
    try:
        while True:
            first, second = (LENGTH.unpack(read_exactly(requests, LENGTH.size))[0] for _ in range(2))
            name, features = json.loads(read_exactly(requests, first))
            code = compile_ir(read_exactly(requests, second).decode(), name, features)
            answers.write(LENGTH.pack(len(code)) + code)
            answers.flush()
    except (EOFError, BrokenPipeError):
        return


if __name__ == "__main__":
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks ends this one
    if "background" in sys.argv[2:]:
        os.nice(10)
    serve(sys.stdin.buffer, sys.stdout.buffer)
