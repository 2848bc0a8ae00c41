import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "factors.md"


def test_the_examples_of_the_documentation_run():
    pytest.importorskip("torch")
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted > 30
    assert not found.failed
