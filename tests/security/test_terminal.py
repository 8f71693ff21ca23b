"""No command sends a terminal what a text, a file, a data set or a path wants it to obey: it is shown as escapes."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from prototorch.base.terminal import EscapingStream, escape_controls, escape_line, escaped_output
from prototorch.cli import main
from prototorch.cli.main import group
from prototorch.errors import DataError, ModelError, warn_user
from prototorch.train.progress import progress_callbacks
from tests.caffe.caffe_data import datum_records, write_own_lmdb
from tests.security.pickle_assembler import archive, state, tensor
from tests.train.test_callbacks import fit, model

CONTROLS = [*map(chr, (*range(9), 11, 12, *range(14, 32), *range(127, 160), *range(0x202A, 0x202F))),
            *map(chr, (*range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C, 0x2028, 0x2029, 0xFEFF, 0xE0041))]  # fmt: skip
HOSTILE = "\x1b]0;PWNED\x07\x1b[2J\x9b31m\u202egpj\u2066\u2028\r[red]x[/red]\x08\x7fé"
TEXT = """# {hostile}
input {{ name: "x"  shape: [{shape}] }}
Flatten {{ }}
Dense {{ units: 2 }}
compile {{ loss: sparse_categorical_crossentropy {{ from_logits: true }}  metrics: [accuracy] }}
fit {{ data {{ source: "{source}" {more} }} epochs: 1 batch_size: 2 }}
"""


def is_plain(output: str) -> bool:
    """Whether a terminal obeys nothing in an output but line feeds."""
    return not any(control in output for control in [*CONTROLS, "\r"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Files whose names, labels, columns and contents are hostile."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for label in ("a" + HOSTILE.replace("/", ""), "b\n" + HOSTILE.replace("/", "")):
        (tmp_path / "images" / label).mkdir(parents=True)
        for i in range(3):
            image = Image.fromarray(rng.integers(0, 255, (4, 4), np.uint8))
            image.save(tmp_path / "images" / label / f"{i}{HOSTILE.replace('/', '')}.png")
    (tmp_path / "images" / label / "bad\x1b[2J.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    header = ",".join(f"{name}{HOSTILE}" for name in "abc")
    (tmp_path / "list\x1b[2J.txt").write_text(f"lost{HOSTILE}.png 1\n")
    write_own_lmdb(tmp_path / "hostile.lmdb", [(b"\x01", datum_records([np.zeros((1, 2, 2), np.uint8)])[0][1]),
                                               (HOSTILE.encode(), b"\xff")])  # fmt: skip
    (tmp_path / "table.csv").write_text(header + "\n" + "1,2,0\n3,4,1\n" * 4)
    (tmp_path / "words.csv").write_text(f"a,b\n1,{HOSTILE.replace(chr(13), '')}\n2,z\n")
    images = TEXT.format(hostile=HOSTILE, shape="1, 4, 4", source="images", more="on_error: skip")
    (tmp_path / f"{HOSTILE.replace('/', '')}.proto").write_text(images.replace("\r", ""))
    (tmp_path / "table.proto").write_text(TEXT.format(hostile="", shape="2", source="table.csv", more=""))
    mistakes = (
        f'# {HOSTILE}\nx: 3\nparam a: "{HOSTILE}"\ninput {{ name: "{HOSTILE}" shape: [2] }}\n'
        f'Dense {{ units: $a name: "{HOSTILE}" }}\n'
        f'block b() {{ Dense {{ bottom: "{HOSTILE}" units: "{HOSTILE}" }} }} b {{ }}\n'
        f'Dense {{ {HOSTILE}: 1 }}\nDense {{ activation: "{HOSTILE}" units: 1 }}\ninclude "{HOSTILE}"\n'
        f'fit {{ data {{ source: "{HOSTILE}" }} callbacks: ["{HOSTILE}"] }}\n'
    ).replace("\r", "")
    (tmp_path / "mistakes\x1b[2J.proto").write_text(mistakes)
    escaped = "".join(f"\\u{ord(c):04x}" if not c.isprintable() else c for c in HOSTILE)
    (tmp_path / "escaped.proto").write_text(mistakes.replace(HOSTILE.replace("\r", ""), escaped))
    (tmp_path / "broken\x1b[2J.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + b"\x1b[2J" * 100)
    (tmp_path / "hostile.pt").write_bytes(archive(state((HOSTILE, tensor()))))
    np.savez(tmp_path / "hostile.npz", **{"a b é [red]x[/red]": np.ones(2)})
    return tmp_path


#: for each command what it is called with; {text}: a model of hostile images with a hostile name
CALLS = {
    "check": (["{text}"], ["table.proto"]),
    "convert": (
        ["{text}", "-o", HOSTILE],
        ["{text}", "-o", "a.onnx", "--option", HOSTILE],
        ["{text}", "--model", HOSTILE],
        [HOSTILE, "-o", "a.h5"],
        ["{text}", "-o", "table.proto"],
        ["{text}", "-o", "a.h5", "--rules", HOSTILE],
    ),
    "devices": ([],),
    "evaluate": (["{text}"], ["table.proto"], ["table.proto", "--data", "words.csv"]),
    "explain": (["{text}"], ["table.proto", "words.csv"], ["table.proto", HOSTILE]),
    "init": (
        ["table.csv", "--target", HOSTILE],
        ["words.csv", "-o", f"{HOSTILE.replace('/', '')}.proto"],
        ["images", "-o", "own.proto"],
        [HOSTILE],
    ),
    "fmt": (["{text}", "--stdout"], ["{text}", "--check"]),
    "layers": ([], [HOSTILE]),
    "predict": (["{text}", "images"], ["{text}", HOSTILE]),
    "run": (["{text}", "--quiet"], ["{text}", "--run-dir", "runs/" + HOSTILE], ["table.proto", "--profile"]),
    "show": (["{text}"], ["{text}", "--expanded"], ["{text}", "--plan"], ["{text}", "--plan", "--after", HOSTILE]),
    "summary": (["{text}"], ["{text}", "--batch", "2"]),
    "time": (["{text}", "--batch", "2", "--steps", "1"], ["{text}", "--phase", HOSTILE]),
    "weights": (
        ["list", HOSTILE],
        ["path", HOSTILE],
        ["fetch", HOSTILE],
        ["remove", HOSTILE],
        ["verify", HOSTILE],
        ["fetch", "https://host.invalid/" + HOSTILE],
        ["show", HOSTILE],
        ["show", "hostile.pt"],
        ["show", "hostile.npz", "--json"],
        [HOSTILE],
    ),
    "data": (
        *((verb, HOSTILE) for verb in ("show", "mean")),
        ["convert", HOSTILE, "-o", "x.lmdb"],
        ["convert", "images", "-o", f"{HOSTILE.replace('/', '')}.lmdb"],
        ["convert", "list\x1b[2J.txt", "-o", "y.lmdb"],
        ["convert", "hostile.lmdb", "-o", "folder\x1b[2J"],
        ["show", "hostile.lmdb"],
        ["mean", "hostile.lmdb"],
        ["mean", "hostile.lmdb", "-o", f"missing/{HOSTILE}"],
    ),
    "generate": ([HOSTILE, "--prompt", "a"], ["{text}", "--prompt", HOSTILE], ["hostile.npz", "--prompt", "a"]),
    "warmup": (["{text}", "--batch", "2", "--phase", "predict"],),
}
OPENED = ("mistakes\x1b[2J.proto", "escaped.proto", "broken\x1b[2J.h5", HOSTILE, "missing\x1b[2J.proto")


@pytest.mark.parametrize("command", group.list_commands(None))
def test_every_command_shows_controls_as_escapes(folder, capfd, command):
    text = next(path.name for path in folder.glob("*PWNED*.proto"))
    calls = [[text if argument == "{text}" else argument for argument in call] for call in CALLS[command]]
    if command not in ("devices", "layers"):
        more = ["images"] if command == "predict" else []
        calls += [[name, *more] for name in OPENED]
        calls += [["table.proto", *more, f"--set={setting}={HOSTILE}"] for setting in (HOSTILE, f"fit.{HOSTILE}")]
    calls += [[f"--{HOSTILE}"]]
    seen = ""
    for arguments in calls:
        with pytest.raises(SystemExit):
            main([command, *arguments])
        out, err = capfd.readouterr()
        assert is_plain(out + err), (arguments, ascii(out + err))
        assert "Traceback" not in err
        seen += out + err
    assert "\\x1b" in seen


def test_commands_of_a_wrong_name(capfd):
    with pytest.raises(SystemExit) as exit:
        main([HOSTILE])
    assert exit.value.code == 2
    assert is_plain(capfd.readouterr().err)


@pytest.mark.parametrize("control", CONTROLS)
def test_controls_become_escapes(control):
    assert escape_controls(f"a{control}b") == f"a{control.encode('unicode_escape').decode()}b"
    assert str(DataError(f"a{control}b")) == str(ModelError(f"a{control}b")) == escape_controls(f"a{control}b")


def test_what_is_shown_as_it_is():
    text = "Übergröße\tשלום नमस्ते 👩\u200d👩 a\u0301\n\r\n"
    assert escape_controls(text) == text
    assert escape_controls("a\rb\ud800") == "a\\rb\\ud800"
    assert escape_controls(escape_controls(HOSTILE)) == escape_controls(HOSTILE)
    assert escape_line("a\tb\r\n") == "a\\tb\\r\\n"


def test_a_stream_without_unicode_gets_escapes():
    raw = io.BytesIO()
    stream = EscapingStream(io.TextIOWrapper(raw, "ascii"))
    assert stream.write("é\x1b\n") == 3
    stream.flush()
    assert raw.getvalue() == b"\\xe9\\x1b\n"


def test_warnings_in_python_are_escaped():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_user(HOSTILE, UserWarning)
    assert is_plain(str(caught[0].message))


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_shows_names_as_they_are(terminal, monkeypatch):
    """Neither markup nor escapes in the names of metrics, and in what is printed above the bar, reach the terminal."""
    text = io.StringIO()
    monkeypatch.setattr(sys, "stderr", text)
    monkeypatch.setattr("prototorch.train.progress._REFRESH_SECONDS", 0)
    monkeypatch.setattr(text, "isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "500")
    with escaped_output():
        displays = progress_callbacks("auto")
        net = model()
        results = type(net.trainer.plan_cache.metrics).results
        monkeypatch.setattr(
            type(net.trainer.plan_cache.metrics), "results", lambda *args: {**results(*args), HOSTILE: 0.5}
        )
        fit(net, displays, epochs=1)
        displays[0].on_epoch_begin(0)
        print(HOSTILE + "above", file=sys.stderr)
        displays[0].on_train_end()
    own = "\x1b[?25l", "\x1b[?25h", "\x1b[2K", "\x1b[1A", "\x1b[0m", "\r"  # of the bar
    shown = text.getvalue()
    for sequence in own:
        shown = shown.replace(sequence, "")
    assert shown.count("[red]x[/red]") >= 2
    assert "\\x1b]0;PWNED" in shown
    assert not any(control in shown for control in ("\x1b]", "\x1b[2J", "\x9b", "\x07", "\u202e", "\u2028", "\x08"))


def test_a_closed_pipe_ends_a_command_quietly():
    """As `yes | head` does: no message, and the exit code of a tool that SIGPIPE has ended."""
    for arguments in (["layers"], ["layers", "Conv2D"], ["--help"], ["show", "resnet101", "--expanded"], ["nothing"]):
        command = [sys.executable, "-m", "prototorch", *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=Path(__file__).parents[2]
        )
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait() == 141, arguments


def test_a_console_of_the_progress_reports_a_closed_pipe():
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    console = progress_callbacks(2)[0].console
    console.file = Closed()
    assert isinstance(console, Console)
    with pytest.raises(BrokenPipeError):
        console.print("a")
