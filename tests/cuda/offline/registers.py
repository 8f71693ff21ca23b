"""The kept table of what the package's kernels take of a multiprocessor (`registers.txt`), for sm_90.

    python -m tests.cuda.offline.registers     # writes it anew; needs CuPy and NVRTC, no GPU

Every kernel text that the shipped models' plans (training and prediction) and the ops' cases lead to is compiled: the
plans in tf32 and bf16, a few in fp16, the cases in float32. Of texts that differ in sizes alone the first is taken. A
line has a kernel's name, of how many texts it is, the most registers of a thread, of stack bytes and of shared memory.
Spilled registers are part of the stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping
from pathlib import Path

from prototorch.base.package_files import shipped_models
from prototorch.cuda.kernels.candidates import CANDIDATES, ENV_VAR
from tests.cuda.offline.cubin import KernelResources, kernel_resources
from tests.cuda.offline.kernel_sources import model_sources, op_case_sources
from tests.cuda.offline.nvrtc import compile_cubin

TABLE = Path(__file__).with_name("registers.txt")
TARGET = "sm_90"
#: models whose plans contain a candidate; those that are compiled in fp16, too
WITH_CANDIDATES = ("lstm", "seq2seq", "transformer", "vit", "gpt")
IN_FP16 = ("lenet", "resnet50", "lstm", "transformer")
#: most registers of a thread: blocks of 256 threads, two of which a multiprocessor then holds
MOST_REGISTERS = 128
#: what CUDA's functions of these names keep in local memory: a table for arguments of more than 100,000
WITH_STACK = re.compile(r"\b(tanf?|sinf?|cosf?)\(")
#: of the type and the number of elements read together; sizes alone do not make another kernel
_SIZE = re.compile(r"(?<![\w.])(\d{2,}|[03-79])(?![\w.])")
_KEPT = re.compile(r"#define (?:PACK|VEC|EACH_VECTORS|ROW_THREADS|AHEAD|TILE|THREAD_TILE|X|Y|W|V|M|L) .*")


def distinct_sources(sources: Iterable[str]) -> list[str]:
    """One of those that differ in sizes alone."""
    first: dict[tuple[str, tuple[str, ...]], str] = {}
    for source in sources:
        first.setdefault((_SIZE.sub("n", source), tuple(_KEPT.findall(source))), source)
    return list(first.values())


def all_sources(environment: MutableMapping[str, str]) -> list[str]:
    """The texts, of the kernels in use and of the candidates."""
    sources: dict[str, None] = {}
    for chosen in ("", ",".join(CANDIDATES)):
        environment[ENV_VAR] = chosen
        for name in WITH_CANDIDATES if chosen else sorted(shipped_models()):
            for precision in ("tf32", "bf16", *(["fp16"] if name in IN_FP16 else [])):
                sources.update(model_sources(name, precision))
    del environment[ENV_VAR]
    sources.update(op_case_sources(("float32",)))
    return distinct_sources(sources)


def compile_all(sources: Iterable[str]) -> tuple[dict[str, tuple[int, KernelResources]], list[str]]:
    """By kernel: of how many texts it is and the most that one of them takes. The texts whose kernels have a stack, but
    for `WITH_STACK`."""
    table: dict[str, tuple[int, KernelResources]] = {}
    with_stack = []
    for source in sources:
        for name, one in kernel_resources(compile_cubin(source, TARGET)).items():
            count, most = table.get(name, (0, KernelResources(0, 0, 0)))
            body = source[source.index(f"KERNEL {name}(") :]
            is_known = bool(WITH_STACK.search(body))
            if one.stack and not is_known:
                with_stack.append(source)
            table[name] = (
                count + 1,
                KernelResources(
                    max(most.registers, one.registers),
                    max(most.stack, 0 if is_known else one.stack),
                    max(most.shared, one.shared),
                ),
            )
    return table, with_stack


def nvrtc_version() -> str:
    """As the table's first line has it."""
    import cupy

    return "NVRTC {}.{}".format(*cupy.cuda.nvrtc.getVersion())


def format_table(table: dict[str, tuple[int, KernelResources]]) -> str:
    """The file's text."""
    lines = [
        f"# {nvrtc_version()}, {TARGET}: python -m tests.cuda.offline.registers",
        "# kernel: texts, most registers, stack and spills in bytes, shared memory in bytes (1024 of it CUDA's own)",
    ]
    lines += [f"{name}: {n} {r.registers} {r.stack} {r.shared}" for name, (n, r) in sorted(table.items())]
    return "\n".join(lines) + "\n"


def read_table() -> tuple[str, dict[str, KernelResources]]:
    """The version of NVRTC and the kernels of the kept table."""
    first, _, *lines = TABLE.read_text(encoding="utf-8").splitlines()
    kernels = {}
    for line in lines:
        name, numbers = line.split(": ")
        _, registers, stack, shared = map(int, numbers.split())
        kernels[name] = KernelResources(registers, stack, shared)
    return first.removeprefix("# ").partition(",")[0], kernels


def main() -> None:
    """Write the table."""
    import os

    table, with_stack = compile_all(all_sources(os.environ))
    TABLE.write_text(format_table(table), encoding="utf-8")
    print(f"{sum(n for n, _ in table.values())} kernels; {len(with_stack)} texts with a stack")
    for source in with_stack:
        print(source[-1500:])


if __name__ == "__main__":
    main()
