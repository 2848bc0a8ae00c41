"""Recordings of the commands of evaluation: what a comparison takes as equal, as close, and as different."""

import base64
import io
import json

import click
import numpy as np
import pytest
import torch
from PIL import Image

from benchmarks.recording.differences import compare
from benchmarks.recording.outputs import PRINTED, Recorder
from benchmarks.recording.run_commands import FAILS, read_commands
from candlelight.cli import main

DRAWING = '<svg><path id="p{}" d="M 10.5 {}"/></svg>'
OWN_WORDS = ("answer", "call", "copy", "demo", "page")


def picture(value):
    data = io.BytesIO()
    Image.fromarray(np.full((2, 3), value, np.uint8)).save(data, "PNG")
    return f'<img src="data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}" alt="gray">'


@pytest.fixture
def verdict(tmp_path, capsys):
    """Record a command twice, with one file that differs, and return what the comparison prints."""

    def record(name, file, content):
        work = tmp_path / "work" / name
        work.mkdir(parents=True)
        if file.endswith(".pt"):
            torch.save({"state": content}, work / file)
        elif file != PRINTED:
            (work / file).write_text(content)
        recorder = Recorder(tmp_path / name / "command", {".": work})
        recorder.store_text(PRINTED, content if file == PRINTED else "")
        recorder.store_files(work)

    def run(file, first, second, renamed=None):
        record("a", file, first)
        record("b", file, second)
        code = compare(tmp_path / "a", tmp_path / "b", 1e-6, renamed or {})
        line, *more = capsys.readouterr().out.splitlines()
        found = line.split()[0] if more else "equal"
        assert code == (found in ("DIFFERS", "MISSING"))
        return found

    return run


@pytest.mark.parametrize(
    ("file", "first", "second", "expected"),
    [
        ("a.json", '{"x": 0.5}', '{"x": 0.5000001}', "close"),
        ("a.json", '{"x": 0.5}', '{"x": 0.50001}', "DIFFERS"),
        ("a.json", '{"x": NaN}', '{"x": NaN }', "close"),
        ("a.json", '{"count": 1000000}', '{"count": 1000001}', "DIFFERS"),
        ("a.json", '{"x": 1}', '{"x": 1.0}', "DIFFERS"),
        ("a.json", '{"x": [1.5, 2.5]}', '{"x": [2.5, 1.5]}', "DIFFERS"),
        ("a.json", '{"x": 1, "y": 2}', '{"y": 2, "x": 1}', "DIFFERS"),
        ("a.json", '{"x": "better by 0.12"}', '{"x": "better by 0.13"}', "close"),
        (PRINTED, "lmse 0.0312", "lmse  0.0313", "close"),
        (PRINTED, "lmse 0.0312", "lmse 0.0314", "DIFFERS"),
        (PRINTED, "rank 2", "rank 3", "DIFFERS"),
        (PRINTED, "$ old words\nlmse 1", "$ new words\nlmse 1", "close"),
        (PRINTED, "one\ntwo", "one", "DIFFERS"),
        ("a.csv", "0.123456789", "0.123456790", "close"),
        ("a.html", picture(7), picture(9), "DIFFERS"),
        ("a.html", DRAWING.format("1f", 20.5), DRAWING.format("2e", 20.5), "equal"),
        ("a.html", DRAWING.format("1f", 20.5), DRAWING.format("1f", 20.6), "DIFFERS"),
        ("a.pt", torch.ones(2), torch.ones(2) + 1e-7, "close"),
        ("a.pt", torch.ones(2), torch.ones(2) + 1e-5, "DIFFERS"),
        ("a.pt", torch.ones(2), torch.ones(2).double(), "DIFFERS"),
    ],
)
def test_verdicts(verdict, file, first, second, expected):
    assert verdict(file, first, second) == expected


@pytest.mark.parametrize(
    ("first", "renamed", "expected"),
    [
        ({"lmse": 1, "lmse_shading": 2}, {}, "DIFFERS"),
        ({"lmse": 1, "lmse_shading": 2}, {"lmse": "error"}, "equal"),
        ({"command": 1, "lmse_shading": 2}, {"command": "error"}, "MISSING"),
    ],
)
def test_renamed_are_whole_words_of_the_first_recording(verdict, first, renamed, expected):
    assert verdict("a.json", *map(json.dumps, (first, {"error": 1, "lmse_shading": 2})), renamed) == expected


def test_what_differs_from_run_to_run_is_not_recorded(tmp_path):
    work = tmp_path / "work"
    (work / "a.json.partial").mkdir(parents=True)
    (work / "a.json.partial" / "5d41.npz").touch()
    (work / "link").symlink_to(tmp_path)
    (work / "a.json").write_text(f'{{"version": "0.2.0.dev12+gabc1234.dirty", "path": "{work}/b"}}')
    recorder = Recorder(tmp_path / "out", {".": work})
    recorder.store_files(work)
    assert (tmp_path / "out" / "a.json").read_text() == '{"version": "VERSION", "path": "./b"}'
    assert (tmp_path / "out" / "files.txt").read_text() == "a.json\na.json.partial\n"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.json", "files.txt", "pictures"]


def test_commands_of_the_table_and_their_options_exist():
    for name, lines in read_commands().items():
        for line in lines:
            words = line.removeprefix(FAILS).split()
            if words[0] in OWN_WORDS or name == "bad-command":
                continue
            command = main
            while isinstance(command, click.Group) and words[0] in command.commands:
                command = command.commands[words.pop(0)]
            options = {one for option in command.params for one in (*option.opts, *option.secondary_opts)}
            options.add("--help")
            assert {word for word in words if word.startswith("--")} <= options, (name, line)
