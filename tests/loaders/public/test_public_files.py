import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.public.public_files import PublicSource, natural

THERE = PublicSource("there")


def test_numbers_are_in_order_of_value_and_hidden_files_are_left_out(tmp_path):
    for name in ("dir_10", "dir_2", ".DS_Store", "._dir_2", "__MACOSX", "dir_1", "a", "17"):
        (tmp_path / name).mkdir()
    assert THERE.names(tmp_path) == ("17", "a", "dir_1", "dir_2", "dir_10")


def test_digits_of_other_scripts_are_letters():
    assert natural("a²") == ((1, 0, "a²"),)


def test_a_file_instead_of_a_folder_is_refused(tmp_path):
    (tmp_path / "data").write_text("")
    with pytest.raises(InputError, match=r"data: expected a folder, got a file; get it from there"):
        THERE.names(tmp_path / "data")


def test_an_existing_path_is_returned(tmp_path):
    assert THERE.require(tmp_path) == tmp_path
    with pytest.raises(InputError, match=r"nowhere is missing; get it from there"):
        THERE.require(tmp_path / "nowhere")


def test_a_name_that_is_too_long_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"a (cannot be reached: .*|is missing); get it from there"):
        THERE.require(tmp_path / ("a" * 5000))
