"""Pickles written opcode by opcode, and the containers of PyTorch around them, as no library would write them."""

from __future__ import annotations

import io
import struct
import zipfile

MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
VERSION = b"\x80\x02M\xe9\x03."
SYSTEM = b"\x80\x02}X\r\x00\x00\x00little_endian\x88s."


def text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


def number(value: int) -> bytes:
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8b" + struct.pack("<i", len(data)) + data


def items(*values: int) -> bytes:
    return b"(" + b"".join(number(v) for v in values) + b"t"


def storage(key: str = "0", count: int = 4, kind: str = "torch\nFloatStorage", view: bytes = b"") -> bytes:
    return (
        b"(" + text("storage") + b"c" + kind.encode() + b"\n" + text(key) + text("cpu") + number(count) + view + b"tQ"
    )


def tensor(
    count=4,
    offset=0,
    shape=(4,),
    strides=(1,),
    key="0",
    kind="torch\nFloatStorage",
    of: bytes | None = None,
    function: bytes = b"ctorch._utils\n_rebuild_tensor_v2\n",
    rest: bytes = b"\x89ccollections\nOrderedDict\n)R",
    view: bytes = b"",
) -> bytes:
    body = (storage(key, count, kind, view) if of is None else of) + number(offset) + items(*shape) + items(*strides)
    return function + b"(" + body + rest + b"tR"


def state(*pairs: tuple[str, bytes]) -> bytes:
    """The pickle of a dictionary."""
    return b"\x80\x02}(" + b"".join(text(name) + value for name, value in pairs) + b"u."


GOOD = state(("w", tensor()))
BYTES = struct.pack("<4f", 1, 2, 3, 4)


def archive(
    pickle: bytes = GOOD,
    data: dict[str, bytes] | None = None,
    name: str = "archive",
    compression=zipfile.ZIP_STORED,
    more: dict[str, bytes] | None = None,
) -> bytes:
    """A zip container."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as writer:
        writer.writestr(f"{name}/data.pkl", pickle)
        for key, content in ({"0": BYTES} if data is None else data).items():
            writer.writestr(f"{name}/data/{key}", content)
        for key, content in (more or {}).items():
            writer.writestr(key, content)
        writer.writestr(f"{name}/version", "3\n")
    return file.getvalue()


def legacy(
    pickle: bytes = GOOD, keys: tuple[str, ...] = ("0",), data: bytes | None = None, start: bytes | None = None
) -> bytes:
    """A legacy container."""
    listed = b"\x80\x02](" + b"".join(text(key) for key in keys) + b"e."
    head = MAGIC + VERSION + SYSTEM if start is None else start
    return head + pickle + listed + (struct.pack("<q", 4) + BYTES if data is None else data)


#: names that a hostile pickle would call
NAMES = [
    "os system",
    "posix system",
    "nt system",
    "builtins eval",
    "builtins exec",
    "builtins __import__",
    "builtins open",
    "builtins getattr",
    "builtins compile",
    "__builtin__ eval",
    "subprocess Popen",
    "subprocess check_output",
    "importlib import_module",
    "runpy _run_code",
    "code interact",
    "pty spawn",
    "ctypes CDLL",
    "shutil rmtree",
    "socket create_connection",
    "webbrowser open",
    "functools partial",
    "operator attrgetter",
    "types FunctionType",
    "torch load",
    "torch.serialization load",
    "torch.storage _load_from_bytes",
    "torch.hub load",
    "torch.jit load",
    "torch.nn.modules.module Module",
    "torch.package PackageImporter",
    "numpy load",
    "numpy.core.multiarray _reconstruct",
    "pickle loads",
    "_pickle loads",
    "marshal loads",
    "_codecs lookup",
    "collections namedtuple",
    "collections OrderedDict.__class__",
    "torch._utils _rebuild_tensor_v2.__globals__",
    "torch._utils __builtins__",
    "torch._utils _import_dotted_name",
    "bdb Bdb",
    "idlelib.run main",
    "timeit timeit",
    "pydoc pipepager",
    "",
    "torch ",
]


def hostile_pickles() -> dict[str, bytes]:
    """Pickles that want to run something, or to take time or memory."""
    end = text("true") + b"\x85R"
    made = {
        f"calls {name}": b"\x80\x02c" + name.replace(" ", "\n").encode() + b"\n" + end + b"." for name in NAMES if name
    }
    system = b"cos\nsystem\n"
    made |= {
        "inside a dictionary": state(("w", system + end)),
        "behind a tensor": state(("w", tensor()), ("x", system + end)),
        "stack global": b"\x80\x04" + text("os") + text("system") + b"\x93" + end + b".",
        "stack global of memo": b"\x80\x04"
        + text("os")
        + b"\x94"
        + text("system")
        + b"\x94000h\x00h\x01\x93"
        + end
        + b".",
        "inst": b"(" + text("true") + b"ios\nsystem\n.",
        "obj": b"(" + system + text("true") + b"o.",
        "newobj": b"\x80\x02" + system + b")\x81.",
        "newobj_ex": b"\x80\x04" + system + b")}\x92.",
        "build": b"\x80\x02" + system + b")\x81}" + text("__setstate__") + system + b"sb" + text("true") + b"b.",
        "build of a dictionary's class": b"\x80\x02}" + text("__class__") + system + b"sb.",
        "ext1": b"\x80\x02\x82\x01" + end + b".",
        "ext2": b"\x80\x02\x83\x01\x00.",
        "ext4": b"\x80\x02\x84\x01\0\0\0.",
        "persid": b"Pos.system\n.",
        "binpersid of a name": b"\x80\x02" + system + b"Q.",
        "hooks": state(("w", tensor(rest=b"\x89" + system + end))),
        "subclass function": state(
            ("w", b"ctorch._tensor\n_rebuild_from_type_v2\n(" + system + b"ctorch\nTensor\n)}tR")
        ),
        "subclass of a subclass": state(
            (
                "w",
                b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._tensor\n_rebuild_from_type_v2\nctorch\nTensor\n)}tR",
            )
        ),
        "subclass class": state(
            ("w", b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\n" + system + b")}tR")
        ),
        "default factory": state(("w", b"ccollections\ndefaultdict\n" + system + b"\x85R")),
        "calls a dictionary": b"\x80\x02})R.",
        "calls a text": b"\x80\x02" + text("os.system") + b")R.",
        "calls a tensor's class": state(("w", b"ctorch\nTensor\n)R")),
        "calls a dtype": state(("w", b"ctorch\nfloat32\n)R")),
        "module of a legacy file": b"\x80\x02(" + text("module") + system + text("source") + text("import os") + b"tQ.",
        "encoded pickle": state(
            ("w", b"c_codecs\nencode\n" + text("cos\nsystem\n") + text("rot13") + b"\x86Rctorch\nload\n")
        ),
        "deep lists": b"\x80\x02" + b"](" * 200_000 + b"e" * 200_000 + b".",
        "deep tuples": b"\x80\x02)" + b"\x85" * 300_000 + b".",
        "deep marks": b"\x80\x02" + b"(" * 500_000 + b".",
        "a list in itself": b"\x80\x02]q\x00h\x00a.",
        "a dictionary in itself": b"\x80\x02}q\x00" + text("state_dict") + b"h\x00s.",
        "doubling lists": b"\x80\x02]q\x00" + b"(h\x00h\x00lq\x00" * 3000 + b".",
        "doubling dictionaries": b"\x80\x02}q\x00"
        + b"}("
        + text("a")
        + b"h\x00"
        + text("model")
        + b"h\x00uq\x00" * 2000
        + b".",
        "copies of a long list": b"\x80\x02]("
        + b"K\x00" * 50_000
        + b"eq\x00"
        + b"cbuiltins\nset\nh\x00\x85R" * 20_000
        + b".",
        "copies of a long text": b"\x80\x02"
        + text("a" * 1_000_000)
        + b"q\x00"
        + b"c_codecs\nencode\nh\x00\x85R" * 30_000
        + b".",
        "many opcodes": b"\x80\x02" + b"}0" * 3_000_000 + b".",
        "many memos": b"\x80\x04" + b"]\x94" * 2_500_000 + b".",
        "text of 2 ** 63 bytes": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 63) + b"abc.",
        "bytes of 2 ** 40": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"abc.",
        "bytearray of 2 ** 62": b"\x80\x05\x96" + struct.pack("<Q", 1 << 62) + b"abc.",
        "frame of 2 ** 62": b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"N.",
        "integer of 2 ** 31 bytes": b"\x80\x02\x8b\xff\xff\xff\x7fabc.",
        "integer of -1 bytes": b"\x80\x02\x8b\xff\xff\xff\xffabc.",
        "a long integer": b"L" + b"9" * 5000 + b"L\n.",
        "a large memo index": b"\x80\x02Nr\xff\xff\xff\xff" + b"0j\xfe\xff\xff\xff.",
        "an unknown memo": b"\x80\x02h\x07.",
        "an empty stack": b"\x80\x020.",
        "two values": b"\x80\x02NN.",
        "no stop": b"\x80\x02N",
        "no value": b"\x80\x02.",
        "an unknown opcode": b"\x80\x02\xff.",
        "protocol 9": b"\x80\x09N.",
        "no mark": b"\x80\x02Nt.",
        "append to a text": b"\x80\x02" + text("a") + b"Na.",
        "set in a list": b"\x80\x02]NNs.",
        "an odd dictionary": b"\x80\x02}(Nu.",
        "a tuple as a key": b"\x80\x02}(NNt" + b"Ns.",
        "a key twice": state(("w", tensor()), ("w", tensor())),
        "colliding keys": b"\x80\x02}(" + b"".join(number(i * ((1 << 61) - 1)) + b"N" for i in range(1, 3000)) + b"u.",
        "a name of 5,000 letters": b"\x80\x02c" + b"a" * 5000 + b"\nb\n.",
        "text that is not UTF-8": b"\x80\x02X\x02\0\0\0\xff\xfe.",
        "next buffer": b"\x80\x05\x97.",
        "an empty pickle": b"",
        "out of the band": b"\x80\x05\x98.",
    }
    return made


def hostile_tensors() -> dict[str, bytes]:
    """Pickles of tensors that are not where they say."""
    huge = 1 << 60
    named = {
        name: state((name, tensor()))
        for name in ("../../etc/passwd", "", "a\0b", "a/../b", "\u202ea", "a" * 5000, "/a")
    }
    return {
        **{f"called {name[:12]!r}": pickle for name, pickle in named.items()},
        "2 ** 60 elements": state(("w", tensor(huge, shape=(huge,)))),
        "2 ** 60 elements of a small storage": state(("w", tensor(shape=(huge,)))),
        "2 ** 60 times one element": state(("w", tensor(shape=(huge,), strides=(0,)))),
        "a product above 2 ** 64": state(("w", tensor(shape=(1 << 40, 1 << 40), strides=(0, 0)))),
        "no elements of a huge shape": state(("w", tensor(shape=(1 << 59, 1 << 59, 0), strides=(0, 0, 1)))),
        "64 lengths": state(("w", tensor(shape=(1 << 30,) * 64, strides=(0,) * 64))),
        "65 lengths": state(("w", tensor(shape=(1,) * 65, strides=(1,) * 65))),
        "a negative offset": state(("w", tensor(offset=-1))),
        "an offset behind the end": state(("w", tensor(offset=1))),
        "an offset of 2 ** 62": state(("w", tensor(offset=1 << 62, shape=(1,)))),
        "a negative length": state(("w", tensor(shape=(-4,)))),
        "a negative stride": state(("w", tensor(offset=3, strides=(-1,)))),
        "strides outside": state(("w", tensor(shape=(2, 2), strides=(3, 1)))),
        "a stride missing": state(("w", tensor(shape=(2, 2)))),
        "a shape of texts": state(("w", tensor(shape=()).replace(b"(t", b"(" + text("4") + b"t", 1))),
        "a text as storage": state(("w", tensor(of=text("0")))),
        "a dictionary as storage": state(("w", tensor(of=b"}"))),
        "a tensor as storage": state(("w", tensor(of=tensor()))),
        "a storage alone": b"\x80\x02" + storage() + b".",
        "a storage longer than its bytes": state(("w", tensor(5, shape=(5,)))),
        "a storage of 2 ** 62": state(("w", tensor(1 << 62, shape=(4,)))),
        "a negative storage": state(("w", tensor(-4))),
        "a missing storage": state(("w", tensor(key="1"))),
        "a storage called ../0": state(("w", tensor(key="../data/0"))),
        "a storage called version": state(("w", tensor(key="../version"))),
        "two types of a storage": state(("v", tensor()), ("w", tensor(2, shape=(2,), kind="torch\nDoubleStorage"))),
        "two sizes of a storage": state(("v", tensor()), ("w", tensor(3, shape=(3,)))),
        "a storage of an unknown type": state(("w", tensor(kind="torch\nMeanStorage"))),
        "a storage of quarters": state(("w", tensor(kind="torch\nQUInt2x4Storage"))),
        "a storage of a function": state(("w", tensor(kind="os\nsystem"))),
        "arguments missing": state(("w", b"ctorch._utils\n_rebuild_tensor_v2\n" + storage() + b"\x85R")),
        "too many arguments": state(("w", tensor(rest=b"\x89" + b"N" * 5000))),
        "a dtype that is none": state(("w", tensor(function=b"ctorch._utils\n_rebuild_tensor_v3\n", rest=b"\x89NN"))),
        "a dtype too wide": state(
            ("w", tensor(function=b"ctorch._utils\n_rebuild_tensor_v3\n", rest=b"\x89Nctorch\nfloat64\n"))
        ),
        "a lazily conjugated tensor": state(("w", tensor(rest=b"\x89N}" + text("conj") + b"\x88s"))),
        "no tensors": state(("w", text("none"))),
        "an empty dictionary": b"\x80\x02}.",
        "none": b"\x80\x02N.",
        "a parameter of a text": state(("w", b"ctorch._utils\n_rebuild_parameter\n(" + text("w") + b"\x88)tR")),
    }
