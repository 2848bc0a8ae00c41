import io
import re
import sys
from pathlib import Path

import pytest

from candlelight.loaders import progress_bars
from candlelight.loaders.commands.command_line import progress
from candlelight.loaders.progress_bars import progress_bar


def test_a_short_run_prints_nothing_into_a_log(capsys):
    with progress(3, "render") as advance:
        advance(1)
    for _ in progress_bar(range(3), desc="train", unit="step"):
        pass
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("total", "line"),
    [(4, r"render: [0-4]/4 frames, .*frame.*, [0-9:?]+ left"), (None, r"render: [0-4] frames, .*frame.*")],
)
def test_a_long_run_prints_plain_lines_into_a_log(capsys, monkeypatch, total, line):
    monkeypatch.setattr(progress_bars, "LINE_PAUSE", 0.0)
    with progress(total, "render") as advance:
        advance(1)
        progress_bars.write_line("a sheet")
        advance(3)
    shown = capsys.readouterr()
    assert shown.out == "a sheet\n"
    lines = shown.err.splitlines(keepends=True)
    assert all(re.fullmatch(line + r"\n", one) for one in lines), lines
    assert len(lines) >= 2
    assert "4" in lines[-1].partition(" frames")[0]


def test_lines_tell_a_loss(capsys, monkeypatch):
    monkeypatch.setattr(progress_bars, "LINE_PAUSE", 0.0)
    bar = progress_bar(total=1, desc="train", unit="step")
    bar.set_postfix(loss=0.5)
    bar.close()
    assert capsys.readouterr().err.endswith("left, loss=0.5\n")


def test_a_terminal_has_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress(2, "render") as advance:
        advance(2)
    assert re.search(r"\rrender: 100%.* 2/2 .*frame", capsys.readouterr().err)


class Closed(io.StringIO):
    def __init__(self):
        super().__init__()
        self.close()


@pytest.mark.parametrize(
    "stream", [None, Closed(), object(), Path("/dev/full").open("w")], ids=["none", "closed", "other", "full"]
)
def test_work_needs_no_standard_error(monkeypatch, stream):
    monkeypatch.setattr(progress_bars, "LINE_PAUSE", 0.0)
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar([1, 2], desc="rows", unit="row") as rows:
        assert list(rows) == [1, 2]
