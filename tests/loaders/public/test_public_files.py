from pydantic import BaseModel

from candlelight.loaders.public.public_files import PublicSource, natural
from tests.refusals import refused

THERE = PublicSource("there")


def test_numbers_are_in_order_of_value_and_hidden_files_are_left_out(tmp_path):
    for name in ("dir_10", "dir_2", ".DS_Store", "._dir_2", "__MACOSX", "dir_1", "a", "17"):
        (tmp_path / name).mkdir()
    assert THERE.names(tmp_path) == ("17", "a", "dir_1", "dir_2", "dir_10")


def test_digits_of_other_scripts_are_letters():
    assert natural("a²") == ((1, 0, "a²"),)


def test_a_file_instead_of_a_folder_is_refused(tmp_path):
    (tmp_path / "data").write_text("")
    with refused(r"data: expected a folder, got a file; get it from there"):
        THERE.names(tmp_path / "data")


def test_a_name_that_is_too_long_is_refused(tmp_path):
    with refused(r"a (cannot be reached: .*|is missing); get it from there"):
        THERE.require(tmp_path / ("a" * 5000))


def test_a_folder_instead_of_a_file_is_refused(tmp_path):
    with refused(r"cannot be read: .*; get it again from there"):
        THERE.json(tmp_path, BaseModel)
    with refused(r"cannot be read as text: .*; get it from there"):
        list(THERE.lines(tmp_path))
