"""A restricted machine for the pickles inside PyTorch's files: it builds plain values and descriptions of tensors.

It is an interpreter of pickle's opcodes (Lib/pickletools.py describes them) of its own, since the module ``pickle``
imports and calls what a file names. Here a name in a file (``GLOBAL``) is only looked up in `torch_objects`; every
other name is an error that quotes it. Nothing is imported or called, nothing is hashed that a file could make collide,
and a file's opcodes, texts and integers are bounded: the opcodes by the number of storages whose bytes are in the file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

__all__ = ["ForeignNameError", "PickleError", "PickleMachine", "add_pairs"]

MAX_OPCODES = 200_000  # beside those that the file's storages account for
OPCODES_OF_STORAGE = 100  # a tensor of its own takes 30 to 50, its place in an optimizer's group some more
MAX_INTEGER_BYTES = 64
MAX_TEXT_BYTES = 64 << 20  # of all texts of a pickle
_HIGHEST_PROTOCOL = 5


class PickleError(Exception):
    """A damaged pickle, or one with a value that no weight file has; the text is the reason."""


class ForeignNameError(PickleError):
    """A name that would have to be imported: ``name``, "os.system". is_root: whether the pickle begins with it, as that
    of a whole object does (in old files as ("module", class, source))."""

    def __init__(self, name: str, is_root: bool = False):
        super().__init__(name)
        self.name, self.is_root = name, is_root


class PickleMachine:
    """Runs one pickle in ``data`` from ``position`` on; afterwards ``position`` is behind it.

    resolve: the meaning of a name ("collections.OrderedDict"), None where it has none. reduce: the value of calling
    what a name means with arguments. persistent: the meaning of a persistent id. Raises PickleError.
    """

    def __init__(
        self,
        data: memoryview,
        position: int,
        resolve: Callable[[str], Any],
        reduce: Callable[[Any, tuple[Any, ...]], Any],
        persistent: Callable[[Any], Any],
    ):
        self.data, self.position = data, position
        self._resolve, self._reduce, self._persistent = resolve, reduce, persistent
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._budget, self._text_budget = MAX_OPCODES, MAX_TEXT_BYTES

    def count_storage(self) -> None:
        """A storage whose bytes are in the file occurs for the first time: the pickle may be longer by its opcodes."""
        self._budget += OPCODES_OF_STORAGE

    def load(self) -> Any:
        """The value of the pickle."""
        handlers, data, size = _HANDLERS, self.data, len(self.data)
        while True:
            if self.position >= size:
                raise PickleError("the pickle is truncated")
            code = data[self.position]
            self.position += 1
            self._budget -= 1
            if self._budget < 0:
                raise PickleError(
                    f"the pickle has more than {MAX_OPCODES:,} opcodes, and {OPCODES_OF_STORAGE} for each storage "
                    "that is in the file; save the state_dict of the model alone, or as safetensors"
                )
            if code == 0x2E:  # STOP
                break
            handler = handlers.get(code)
            if handler is None:
                raise PickleError(f"the pickle has the opcode {bytes([code])!r}, which no weight file has")
            handler(self)
        if len(self._stack) != 1 or self._marks:
            raise PickleError("the pickle does not end with one value")
        return self._stack.pop()

    # ---- reading arguments and the stack

    def _take(self, count: int) -> memoryview:
        start, end = self.position, self.position + count
        if end > len(self.data):
            raise PickleError("the pickle is truncated")
        self.position = end
        return self.data[start:end]

    def _integer(self, layout: struct.Struct) -> int:
        return layout.unpack(self._take(layout.size))[0]

    def _line(self) -> str:
        """Text up to the end of the line, of at most 300 bytes."""
        line = bytes(self.data[self.position : self.position + 300])
        end = line.find(b"\n")
        if end < 0:
            raise PickleError("the pickle has a line without an end")
        self.position += end + 1
        return _decode(line[:end])

    def _pop(self) -> Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            raise PickleError("the pickle takes a value from an empty stack")
        return self._stack.pop()

    def _pop_many(self, count: int) -> list[Any]:
        values = [self._pop() for _ in range(count)]
        return values[::-1]

    def _top(self, kind: type) -> Any:
        """The value on top of the stack, which must be of a kind."""
        if len(self._stack) <= (self._marks[-1] if self._marks else 0) or type(self._stack[-1]) is not kind:
            raise PickleError(f"the pickle adds to what is no {kind.__name__}")
        return self._stack[-1]

    def _pop_mark(self) -> list[Any]:
        """The values above the last mark."""
        if not self._marks:
            raise PickleError("the pickle has no mark where one must be")
        start = self._marks.pop()
        values = self._stack[start:]
        del self._stack[start:]
        return values

    def _drop_to_mark(self) -> None:
        self._pop_mark()

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    # ---- opcodes

    def _protocol(self) -> None:
        version = self._take(1)[0]
        if version > _HIGHEST_PROTOCOL:
            raise PickleError(f"pickle protocol {version} is unknown")

    def _frame(self) -> None:
        if self._integer(_U8) > len(self.data) - self.position:
            raise PickleError("the pickle is truncated")

    def _mark(self) -> None:
        self._marks.append(len(self._stack))

    def _pop_value(self) -> None:
        if self._marks and self._marks[-1] == len(self._stack):
            self._marks.pop()
        else:
            self._pop()

    def _duplicate(self) -> None:
        value = self._pop()
        self._stack += [value, value]

    def _long(self, count: int) -> None:
        if not 0 <= count <= MAX_INTEGER_BYTES:
            raise PickleError(f"the pickle has an integer of {count:,} bytes")
        self._push(int.from_bytes(self._take(count), "little", signed=True))

    def _text_integer(self) -> None:
        line = self._line().removesuffix("L")
        if line in ("00", "01"):
            self._push(line == "01")
        elif len(line) > 150 or not line.removeprefix("-").isdecimal():
            raise PickleError(f"the pickle has the integer {line[:40]!r}")
        else:
            self._push(int(line))

    def _text_float(self) -> None:
        line = self._line()
        try:
            self._push(float(line))
        except ValueError:
            raise PickleError(f"the pickle has the number {line[:40]!r}") from None

    def _text(self, count: int) -> None:
        self._push(_decode(self._take_text(count)))

    def _bytes(self, count: int) -> None:
        self._push(bytes(self._take_text(count)))

    def _take_text(self, count: int) -> memoryview:
        self._text_budget -= count
        if count < 0 or self._text_budget < 0:
            raise PickleError(f"the pickle has texts of more than {MAX_TEXT_BYTES:,} bytes")
        return self._take(count)

    def _legacy_string(self, count: int) -> None:
        """A ``str`` of Python 2: text where it is UTF-8."""
        content = bytes(self._take_text(count))
        try:
            self._push(content.decode("utf-8"))
        except UnicodeDecodeError:
            self._push(content)

    def _tuple(self, count: int) -> None:
        self._push(tuple(self._pop_many(count)))

    def _append(self) -> None:
        value = self._pop()
        self._top(list).append(value)

    def _appends(self) -> None:
        values = self._pop_mark()
        self._top(list).extend(values)

    def _set_item(self) -> None:
        self._add_items(self._pop_many(2))

    def _add_items(self, values: list[Any]) -> None:
        add_pairs(self._top(dict), values)

    def _new_dict(self) -> None:
        values = self._pop_mark()
        self._push(add_pairs({}, values))

    def _get(self, index: int) -> None:
        try:
            self._push(self._memo[index])
        except KeyError:
            raise PickleError(f"the pickle reads memo {index}, which was not written") from None

    def _put(self, index: int) -> None:
        value = self._pop()
        self._memo[index] = value
        self._push(value)

    def _text_index(self) -> int:
        line = self._line()
        if not line.isdecimal() or len(line) > 9:
            raise PickleError(f"the pickle has the memo index {line[:40]!r}")
        return int(line)

    def _global(self) -> None:
        self._find(self._line(), self._line())

    def _stack_global(self) -> None:
        module, name = self._pop_many(2)
        if type(module) is not str or type(name) is not str:
            raise PickleError("the pickle has a name that is no text")
        self._find(module, name)

    def _find(self, module: str, name: str) -> None:
        meaning = self._resolve(f"{module}.{name}")
        if meaning is None:
            raise ForeignNameError(f"{module}.{name}"[:200], is_root=not self._stack or self._stack == ["module"])
        self._push(meaning)

    def _call(self) -> None:
        function, arguments = self._pop_many(2)
        if type(arguments) is not tuple:
            raise PickleError("the pickle calls with arguments that are no tuple")
        for argument in arguments:  # what a call copies counts, or a short pickle could copy a long list very often
            if isinstance(argument, list | dict | str | bytes):
                self._budget -= len(argument) // (64 if isinstance(argument, str | bytes) else 1)
        if self._budget < 0:
            raise PickleError("the pickle copies too much")
        self._push(self._reduce(function, arguments))

    def _build(self) -> None:
        """Attributes of an object: none of the values that are built here has any, so they are left out."""
        self._pop()
        value = self._pop()
        if type(value) is not dict:
            raise PickleError(f"the pickle sets the state of a {type(value).__name__}")
        self._push(value)

    def _refer(self) -> None:
        self._push(self._persistent(self._pop()))

    def _instance(self) -> None:
        raise ForeignNameError(f"{self._line()}.{self._line()}")

    def _object(self) -> None:
        raise PickleError("the pickle makes an object (opcode OBJ), which no weight file does")

    def _extension(self) -> None:
        raise PickleError("the pickle calls an extension (opcode EXT), which no weight file does")


def add_pairs(target: dict[Any, Any], values: list[Any]) -> dict[Any, Any]:
    """Add keys and values, which alternate, to a dictionary. Raises PickleError for a key that occurs twice, or that is
    no text and no number."""
    if len(values) % 2:
        raise PickleError("the pickle has a key without a value")
    for key, value in zip(values[::2], values[1::2], strict=True):
        if type(key) not in (str, int, bool, float, type(None)) or (type(key) is int and abs(key) >= 1 << 48):
            raise PickleError(f"the pickle has a dictionary with a {type(key).__name__} as a key")
        if key in target:
            raise PickleError(f"the pickle has a dictionary with the key {key!r:.80} twice")
        target[key] = value
    return target


def _decode(content: memoryview | bytes) -> str:
    try:
        return bytes(content).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise PickleError("the pickle has a text that is not UTF-8") from None


_U1, _U2, _I4, _U4, _U8, _F8 = (struct.Struct(code) for code in ("<B", "<H", "<i", "<I", "<Q", ">d"))
_M = PickleMachine
_HANDLERS: dict[int, Callable[[PickleMachine], None]] = {
    ord(code): handler
    for code, handler in {
        "\x80": _M._protocol, "\x95": _M._frame, "(": _M._mark, "0": _M._pop_value, "1": _M._drop_to_mark,
        "N": lambda m: m._push(None), "\x88": lambda m: m._push(True), "\x89": lambda m: m._push(False),
        "J": lambda m: m._push(m._integer(_I4)), "K": lambda m: m._push(m._take(1)[0]),
        "M": lambda m: m._push(m._integer(_U2)), "\x8a": lambda m: m._long(m._take(1)[0]),
        "\x8b": lambda m: m._long(m._integer(_I4)), "I": _M._text_integer, "L": _M._text_integer, "F": _M._text_float,
        "G": lambda m: m._push(m._integer(_F8)), "X": lambda m: m._text(m._integer(_U4)),
        "\x8c": lambda m: m._text(m._take(1)[0]), "\x8d": lambda m: m._text(m._integer(_U8)),
        "B": lambda m: m._bytes(m._integer(_U4)), "C": lambda m: m._bytes(m._take(1)[0]),
        "\x8e": lambda m: m._bytes(m._integer(_U8)), "\x96": lambda m: m._bytes(m._integer(_U8)),
        "T": lambda m: m._legacy_string(m._integer(_I4)), "U": lambda m: m._legacy_string(m._take(1)[0]),
        ")": lambda m: m._push(()), "\x85": lambda m: m._tuple(1), "\x86": lambda m: m._tuple(2),
        "\x87": lambda m: m._tuple(3), "t": lambda m: m._push(tuple(m._pop_mark())),
        "]": lambda m: m._push([]), "l": lambda m: m._push(m._pop_mark()), "a": _M._append, "e": _M._appends,
        "}": lambda m: m._push({}), "d": _M._new_dict, "s": _M._set_item, "u": lambda m: m._add_items(m._pop_mark()),
        # a set is a list here: its elements are not hashed
        "\x8f": lambda m: m._push([]), "\x90": _M._appends, "\x91": lambda m: m._push(m._pop_mark()),
        "h": lambda m: m._get(m._take(1)[0]), "j": lambda m: m._get(m._integer(_U4)),
        "g": lambda m: m._get(m._text_index()), "q": lambda m: m._put(m._take(1)[0]),
        "r": lambda m: m._put(m._integer(_U4)), "p": lambda m: m._put(m._text_index()),
        "\x94": lambda m: m._put(len(m._memo)), "c": _M._global, "\x93": _M._stack_global,
        "R": _M._call, "\x81": _M._call, "b": _M._build, "Q": _M._refer, "i": _M._instance, "o": _M._object,
        "\x82": _M._extension, "\x83": _M._extension, "\x84": _M._extension, "2": _M._duplicate,
    }.items()
}  # fmt: skip
