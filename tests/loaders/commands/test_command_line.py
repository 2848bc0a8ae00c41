"""Progress bars of commands."""

import sys
import time

import pytest

from candlelight.loaders.commands.command_line import progress


@pytest.mark.parametrize(("terminal", "least", "most"), [(True, 4, 100), (False, 1, 2)])
def test_progress_writes_little_to_a_log(capsys, monkeypatch, terminal, least, most):
    """A terminal shows the bar moving; a log has only its first and last state."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with progress(100, "render") as advance:
        for _ in range(100):
            advance(1)
            time.sleep(0.006)
    said = capsys.readouterr().err
    assert "100/100" in said
    assert least <= said.count("render:") <= most
