"""The last lines of the demo can be typed as they are."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from candlelight.evaluation.demo import rebuild, study
from candlelight.evaluation.demo.pack_and_study import pack_and_study


@pytest.mark.parametrize("found", [None, "/usr/bin/candlelight"])
def test_next_steps_say_how_to_put_the_command_on_the_path(tmp_path, monkeypatch, found):
    results = SimpleNamespace(summary=list, report=Path("report.html"), weights=Path("network.pt"))
    monkeypatch.setattr(rebuild, "make_if_changed", lambda *_, **__: False)
    monkeypatch.setattr(study, "run_study", lambda *_, **__: results)
    monkeypatch.setattr("shutil.which", lambda _: found)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").touch()
    lines = pack_and_study(tmp_path / "frames", tmp_path, lambda _: None)
    told = [line for line in lines if line.startswith("  . .venv/bin/activate ")]
    assert len(told) == (found is None)
