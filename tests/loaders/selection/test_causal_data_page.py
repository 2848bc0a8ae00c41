import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "causal-data.md"


def test_the_examples_of_the_page_run(causal_packs, datasets, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(causal_packs)
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted > 15
    assert not found.failed
