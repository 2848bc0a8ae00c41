import io
import sys

import pytest

from candlelight.loaders.progress_bar import progress_bar


class Closed(io.StringIO):
    def __init__(self):
        super().__init__()
        self.close()


@pytest.mark.parametrize(
    "stream", [None, Closed(), object(), io.StringIO()], ids=["none", "closed", "other", "log"]
)
def test_bars_need_no_standard_error(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar([1, 2], desc="rows", unit="row") as rows:
        assert list(rows) == [1, 2]
    assert not isinstance(stream, io.StringIO) or stream.closed or not stream.getvalue()


def test_bars_are_drawn_on_a_terminal(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    assert list(progress_bar([1, 2], desc="rows", unit="row")) == [1, 2]
    assert "rows: 100%" in terminal.getvalue()
