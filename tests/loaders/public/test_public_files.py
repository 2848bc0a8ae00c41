import numpy as np
import pytest
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


@pytest.mark.parametrize(
    ("array", "kind", "message"),
    [
        (np.ones((3, 3), int), "floats", r"expected floats of 2 axes, got int64 \[3, 3\]"),
        (np.ones((3, 3), complex), "floats", r"expected floats of 2 axes, got complex128 \[3, 3\]"),
        (np.ones((3, 3)), "integers", r"expected integers of 2 axes, got float64 \[3, 3\]"),
        (np.ones(3), "floats", r"expected floats of 2 axes, got float64 \[3\]"),
        (np.array([[{}]], object), "floats", "cannot be read: "),
    ],
)
def test_other_numbers_are_refused(tmp_path, array, kind, message):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with refused(rf"\A.*a.npy: {message}.*; get it again from there\Z"):
        THERE.numbers(tmp_path / "a.npy", kind, 2)


def test_a_damaged_array_is_refused_before_memory_is_allocated(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((3, 3)))
    whole = (tmp_path / "a.npy").read_bytes()
    claims = whole.replace(b"(3, 3), }", b"(6666666666, 3), }")
    for damaged in (b"", b"PK\x03\x04", whole[:60], whole[:-8], claims):
        assert damaged != whole
        (tmp_path / "a.npy").write_bytes(damaged)
        with refused(r"\A.*a.npy: cannot be read: .*; get it again from there\Z"):
            THERE.numbers(tmp_path / "a.npy", "floats", 2)


class Record(BaseModel):
    number: int


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"null", b"[" * 100_000, b"\xff"])
def test_text_that_is_not_json_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_bytes(text)
    with refused(r"\A.*a.json: the file: .*; get it again from there\Z"):
        THERE.json(tmp_path / "a.json", Record)


def test_bytes_that_are_not_text_are_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00")
    with refused(r"\A.*a.txt: cannot be read as text: .*; get it from there\Z"):
        list(THERE.lines(tmp_path / "a.txt"))


def test_a_folder_instead_of_a_file_is_refused(tmp_path):
    with refused(r"cannot be read: .*; get it again from there"):
        THERE.json(tmp_path, Record)
    with refused(r"cannot be read as text: .*; get it from there"):
        list(THERE.lines(tmp_path))
