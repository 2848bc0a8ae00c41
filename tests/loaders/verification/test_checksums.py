"""SHA256SUMS: its format, damaged lines, changed files, safe replacement."""

import hashlib
import os
import shutil
import subprocess

import numpy as np
import pytest

from candlelight.loaders.verification.checksums import (
    NEXT_SUMS,
    SUMS,
    file_sha256,
    find_changed_files,
    parse_sums,
    replace_files,
    sums_text,
)

NAMES = ("a.txt", "b.bin")


def write(text):
    return lambda path: path.write_text(text)


@pytest.fixture
def folder(tmp_path):
    replace_files(tmp_path, {"a.txt": write("one"), "b.bin": write("two")})
    return tmp_path


def test_the_file_has_the_format_of_coreutils(folder):
    expected = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in read(folder).items())
    assert (folder / SUMS).read_text() == expected
    assert find_changed_files(folder, NAMES) == {}
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=folder, check=True)


def read(folder):
    return {name: (folder / name).read_bytes() for name in NAMES}


def test_lines_are_read_back_and_damaged_lines_are_left_out():
    sums = {"a": "0" * 64, "b c": "9f" * 32}
    assert parse_sums(sums_text(sums).encode()) == sums
    for bad in (
        b"A" * 64 + b"  a\n",
        b"0" * 63 + b"  a\n",
        b"0" * 64 + b" a\n",
        b"\xff" * 64,
        b"0" * 64 + b"  ",
    ):
        assert parse_sums(bad) == {}


def test_a_file_is_hashed_in_pieces(tmp_path):
    data = np.random.default_rng(0).bytes(10**6 + 7)
    (tmp_path / "x").write_bytes(data)
    assert file_sha256(tmp_path / "x") == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("name", [*NAMES, SUMS])
def test_every_flipped_bit_is_found(folder, name):
    whole = (folder / name).read_bytes()
    for place in range(len(whole)):
        for bit in (0, 5, 7):  # 5 turns a lower-case digit into an upper-case one
            data = bytearray(whole)
            data[place] ^= 1 << bit
            (folder / name).write_bytes(data)
            assert find_changed_files(folder, NAMES), (place, bit)


def test_each_changed_file_has_a_reason(folder):
    (folder / "a.txt").write_text("One")
    (folder / "b.bin").unlink()
    assert find_changed_files(folder, NAMES) == {
        "a.txt": "differs from its line in SHA256SUMS",
        "b.bin": "is missing",
    }
    (folder / "b.bin").mkdir()
    assert find_changed_files(folder, NAMES)["b.bin"] == "cannot be read: Is a directory"
    (folder / SUMS).unlink()
    # A file without a line cannot be checked: only the missing SHA256SUMS is reported.
    assert find_changed_files(folder, NAMES) == {
        SUMS: "is missing",
        "b.bin": "cannot be read: Is a directory",
    }


def test_unexpected_lines_are_reported(folder):
    with (folder / SUMS).open("a") as sums:
        sums.write(f"{'0' * 64}  c\n")
    assert find_changed_files(folder, NAMES) == {SUMS: "has more than the expected lines"}


@pytest.mark.parametrize("steps", range(4))
def test_a_kill_while_files_are_replaced_leaves_no_damage(folder, monkeypatch, steps):
    """A process killed after `steps` renames leaves old or new files, and the next call completes them."""
    done = []
    rename = type(folder).replace

    class Killed(BaseException):
        pass

    def replace(path, target):
        if len(done) == steps:
            raise Killed
        done.append(target)
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(type(folder), "replace", replace)
        with pytest.raises(Killed):
            replace_files(folder, {"a.txt": write("three"), "b.bin": write("four")})
    assert find_changed_files(folder, NAMES) == {}
    assert (folder / NEXT_SUMS).exists() == (steps > 0)
    assert (folder / "a.txt").read_text() == ("three" if steps > 1 else "one")
    # A file that is neither the old nor the new version is still damaged.
    before = (folder / "b.bin").read_bytes()
    (folder / "b.bin").write_text("five")
    assert find_changed_files(folder, NAMES).keys() == {"b.bin"}
    (folder / "b.bin").write_bytes(before)
    replace_files(folder, {"a.txt": write("three"), "b.bin": write("four")})
    assert find_changed_files(folder, NAMES) == {}
    assert sorted(path.name for path in folder.iterdir()) == [SUMS, "a.txt", "b.bin"]


def test_a_failed_write_leaves_the_old_files(folder):
    def fail(path):
        path.write_text("half")
        raise OSError(28, os.strerror(28))

    before = read(folder)
    with pytest.raises(OSError, match="No space"):
        replace_files(folder, {"a.txt": write("three"), "b.bin": fail})
    assert read(folder) == before
    assert find_changed_files(folder, NAMES) == {}
    assert len(list(folder.iterdir())) == 3
