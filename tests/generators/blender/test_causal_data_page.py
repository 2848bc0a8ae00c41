"""The commands and examples of docs/causal-data.md run, on what the commands render."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from candlelight.cli import main

PAGE = Path(__file__).parents[3] / "docs" / "causal-data.md"

pytestmark = [pytest.mark.blender, pytest.mark.usefixtures("kept_renderers")]


def test_the_examples_of_the_page_run(datasets, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    for line in re.findall(r"^    candlelight (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        result = CliRunner().invoke(main, shlex.split(line))
        assert result.exit_code == 0, (line, result.output)
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted > 15
    assert not found.failed
