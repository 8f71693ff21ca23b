"""Object code in memory by our own linker: it does what it does by LLVM's loader; what it does not know is LLVM's."""

from __future__ import annotations

import ctypes
import os
import random
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from prototorch.engine.backends.cpu.native import cpu_features, elf_loader, jit, kernel_api, llvm_compiler
from prototorch.spec import Spec

native_check = pytest.importorskip("native_check", reason="no native level here", exc_type=ImportError)
pytestmark = [
    pytest.mark.skipif(cpu_features.unavailable_reason() is not None, reason="no native kernels on this machine"),
    pytest.mark.skipif(not elf_loader.is_supported(), reason="LLVM's own loader is used on this system"),
]
#: a table of constants, a constant that is a vector, and two functions of the C library
IR = """
@table = private unnamed_addr constant [5 x double] [double 1.0, double -2.0, double 3.5, double 0.25, double 8.0]
declare double @pow(double, double)
declare ptr @memset(ptr, i32, i64)
define double @raised(i64 %i, double %by) {
  %at = getelementptr [5 x double], ptr @table, i64 0, i64 %i
  %value = load double, ptr %at
  %found = call double @pow(double %value, double %by)
  ret double %found
}
define void @cleared(ptr %at, i64 %count, i64 %wide) {
  %done = call ptr @memset(ptr %at, i32 0, i64 %count)
  %first = insertelement <8 x i64> poison, i64 %wide, i64 0
  %all = shufflevector <8 x i64> %first, <8 x i64> poison, <8 x i32> zeroinitializer
  %sum = add <8 x i64> %all, <i64 1, i64 20, i64 300, i64 4000, i64 50000, i64 600000, i64 7000000, i64 80000000>
  store <8 x i64> %sum, ptr %at, align 8
  ret void
}
"""


def compiled(ir: str = IR) -> bytes:
    return llvm_compiler.compile_ir(ir, *cpu_features.host_cpu())


def results(functions: dict[str, int]) -> list:
    raised = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_double)(functions["raised"])
    cleared = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(functions["cleared"])
    memory = (ctypes.c_int64 * 12)(*range(100, 112))
    cleared(ctypes.addressof(memory), 80, 9)
    return [raised(i, 2.0) for i in range(5)] + list(memory)


def test_it_computes_what_it_does_by_llvms_loader():
    code = compiled()
    mine, again = elf_loader.load_objects([code, code])
    theirs = jit._load_with_mcjit(["raised", "cleared"], code)
    wanted = [1.0, 4.0, 12.25, 0.0625, 64.0, 10, 29, 309, 4009, 50009, 600009, 7000009, 80000009, 0, 0, 110, 111]
    assert results(mine) == results(again) == results(theirs) == wanted


def test_the_code_can_be_run_and_not_written():
    address = elf_loader.load_objects([compiled()])[0]["raised"]
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights = line.split()[:2]
        begin, end = (int(n, 16) for n in span.split("-"))
        if begin <= address < end:
            assert rights == "r-xp"
            return
    raise AssertionError("the code is nowhere")


@pytest.mark.parametrize(
    ("ir", "why"),
    [
        ("@kept = global i64 7\ndefine i64 @f() {\n  %v = load i64, ptr @kept\n  ret i64 %v\n}", "writable"),
        (
            "declare i64 @nobody_has_this()\ndefine i64 @f() {\n  %v = call i64 @nobody_has_this()\n  ret i64 %v\n}",
            "nobody_has_this",
        ),
    ],
)
def test_what_it_does_not_know_is_left_to_llvm(ir, why):
    with pytest.raises(elf_loader.UnsupportedObjectError, match=why):
        elf_loader.load_objects([compiled(), compiled(ir)])


def test_an_object_that_only_llvm_can_load_is_loaded_by_it():
    code = compiled("@kept = global i64 7\ndefine i64 @f() {\n  %v = load i64, ptr @kept\n  ret i64 %v\n}")
    (found,) = jit._load_objects([(["f"], code)])
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(found["f"])() == 7


PROCESSORS = {
    256: ("haswell", "+avx2,+fma"),
    512: ("skylake-avx512", "+avx512f,+avx512vl,+avx512dq,+avx512bw,+avx2,+fma"),
}
EXTREMES = [0, 1, 63, 64, *(one for bits in (15, 16, 31, 32, 63, 64) for one in (2**bits - 1, 2**bits)), 2**64 - 65]


@pytest.fixture(scope="module", params=sorted(PROCESSORS))
def objects(request):
    """Object files of kernels for a width of vectors, which this machine need not have: they are loaded, never run."""
    processor = PROCESSORS[request.param]
    vectors = Spec((5, 130))
    steps = [
        ("softmax", (vectors,), vectors, {"axis": -1}),
        ("sum", (vectors,), Spec((5,)), {"axis": (1,), "keepdims": False}),
        ("exp", (vectors,), vectors, {}),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_features, "host_cpu", lambda: processor)
        with native_check.vector_bits(request.param):
            codes = []
            for op, ins, out, attrs in steps:
                with kernel_api.collect_codes() as missing:
                    native_check.prepared(op, ins, (out,), attrs).enumerate_variants()
                codes += missing
            texts = [code.emit("kernel").finish() for code in codes]
    return [llvm_compiler.compile_ir(text, *processor) for text in [IR, *texts]]


def is_loaded(code: bytes) -> bool:
    """Whether it is loaded; False where it is refused. Any other error is a mistake."""
    try:
        elf_loader.load_objects([code])
    except elf_loader.UnsupportedObjectError:
        return False
    return True


def fields(code: bytes) -> list[tuple[str, int, int]]:
    """Name, offset and number of bytes of each field of the header, the sections, the symbols and the relocations."""
    parts = [(elf_loader._HEADER, 0, "the header")]
    _, _, table, _, count, _ = elf_loader._HEADER.unpack_from(code)
    for i in range(count):
        at = table + i * elf_loader._SECTION.size
        section = elf_loader._Section(*elf_loader._SECTION.unpack_from(code, at))
        parts.append((elf_loader._SECTION, at, f"section {i}"))
        kinds = {elf_loader._SHT_SYMTAB: elf_loader._SYMBOL, elf_loader._SHT_RELA: elf_loader._RELA_ENTRY}
        if section.kind in kinds:
            layout = kinds[section.kind]
            entries = range(section.offset, section.offset + section.size, layout.size)
            parts += [(layout, entry, f"entry at {entry} of section {i}") for entry in entries]
    all_fields = []
    for layout, at, name in parts:
        for count, kind in re.findall(r"(\d*)([xBHIQq])", layout.format):
            size = struct.calcsize(f"<{kind}")
            for _ in range(int(count or 1)):
                if kind != "x":
                    all_fields.append((name, at, size))
                at += size
    return all_fields


def test_kernels_of_each_width_are_loaded(objects):
    assert len(objects) >= 5
    assert all(is_loaded(code) for code in objects)


def test_a_file_that_was_cut_off_is_refused(objects):
    for code in objects:
        assert not any(is_loaded(code[:end]) for end in range(0, len(code), max(len(code) // 300, 1)))


def test_a_file_with_an_extreme_number_in_any_field_is_refused_or_loaded_but_never_read_beyond(objects):
    for code in objects:
        refused = 0
        all_fields = fields(code)
        for _, at, size in all_fields:
            for value in (*EXTREMES, len(code), len(code) + 1):
                wrong = bytearray(code)
                wrong[at : at + size] = (value % 2 ** (8 * size)).to_bytes(size, "little")
                refused += not is_loaded(bytes(wrong))
        assert refused > 5 * len(all_fields)


def test_a_file_with_a_changed_bit_is_refused_or_loaded_but_never_read_beyond(objects):
    draw = random.Random(0)
    refused = 0
    for _ in range(2000):
        wrong = bytearray(draw.choice(objects))
        wrong[draw.randrange(len(wrong))] ^= 1 << draw.randrange(8)
        refused += not is_loaded(bytes(wrong))
    assert 0 < refused < 2000


def test_with_all_code_on_disk_llvm_is_not_loaded(tmp_path):
    program = (
        "import sys, numpy as np, prototorch as pt\n"
        "model = pt.load_model('two_layer')\n"
        "model.train_on_batch(np.ones((4, 64), 'f4'), np.arange(4))\n"
        "print('llvmlite.binding' in sys.modules)"
    )
    environment = {**os.environ, "PROTOTORCH_CACHE": str(tmp_path), "PROTOTORCH_CPU": "native"}
    said = []
    for _ in range(2):
        command = [sys.executable, "-W", "ignore", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.strip())
    assert said == ["True", "False"]
