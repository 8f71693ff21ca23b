"""The examples of docs/ops.md run in order, and print what the page shows."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "ops.md"


def test_the_page_runs_and_prints_what_it_shows():
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed = [line.split() for line in done.stdout.splitlines()]
    for shown in re.findall(r"^print\(.*\)  # (.+)$", code, re.MULTILINE):
        assert shown.split() in printed
