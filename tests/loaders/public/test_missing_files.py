import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.public.missing_files import require_path


def test_an_existing_path_is_returned(tmp_path):
    assert require_path(tmp_path, "there") == tmp_path
    with pytest.raises(InputError, match=r"nowhere is missing; get it from there"):
        require_path(tmp_path / "nowhere", "there")


def test_a_name_that_is_too_long_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"a (cannot be reached: .*|is missing); get it from there"):
        require_path(tmp_path / ("a" * 5000), "there")
