import re
import sys

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


def test_a_closed_standard_error_ends_no_run(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    assert list(progress_bar([1, 2], desc="add", unit="number")) == [1, 2]
    with progress_bar(total=2, desc="add", unit="number") as bar:
        bar.update(2)
