"""Errors that are not reported as damage: lack of memory, and calls that the system refuses."""

import errno
import os
import zipfile

import click
import h5py
import pytest
from click.testing import CliRunner
from PIL import Image

from candlelight.cli import main
from candlelight.loaders import HDF5Frames, pack_hdf5
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.files.layer_codecs import decode_npz, decode_png
from candlelight.loaders.frames import frame_path
from candlelight.loaders.public.file_rows import read_table


@pytest.fixture
def raise_on_open(monkeypatch):
    """Return a function that makes every library that opens files raise one error."""

    def replace(error):
        def refuse(*_, **__):
            raise error

        monkeypatch.setattr(h5py, "File", refuse)
        monkeypatch.setattr(zipfile, "ZipFile", refuse)
        monkeypatch.setattr(Image, "open", refuse)

    return replace


@pytest.fixture
def read_calls(frames_root, tmp_path):
    sample = frame_path(frames_root, "grid", 5)
    (packed,) = pack_hdf5(frames_root, tmp_path, sets=["grid"])
    return (
        lambda: HDF5Frames(packed),
        lambda: read_table(packed, "index"),
        lambda: decode_npz(sample / "layers.npz", ["depth"], 8, 8),
        lambda: decode_png(sample / "image.png"),
    )


def test_lack_of_memory_is_not_reported_as_damage(read_calls, raise_on_open, frames_root):
    raise_on_open(MemoryError())
    for read in read_calls:
        with pytest.raises(MemoryError):
            read()


def test_missing_system_functions_are_not_reported_as_damage(read_calls, raise_on_open):
    raise_on_open(OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)))
    for read in read_calls:
        with pytest.raises(InputError, match=r"cannot be read.*: Function not implemented$"):
            read()


def test_commands_report_lack_of_memory_in_one_line(read_calls, raise_on_open, tmp_path):
    raise_on_open(MemoryError("Unable to allocate 32 TiB"))
    done = CliRunner().invoke(main, ["info", str(tmp_path / "grid.h5")])
    assert done.exit_code == 2
    assert done.output == (
        "Error: memory ran out (Unable to allocate 32 TiB); end other programs, use fewer workers or smaller "
        "images\n"
    )


@pytest.mark.parametrize(
    ("words", "name", "shown"),
    [
        (("evaluate", "csm"), "size", "--size HEIGHT WIDTH"),
        (("evaluate", "csm"), "set_name", "--set"),
        (("render",), "overrides", "--set"),
        (("evaluate", "csm"), "batch_size", "`batch_size`"),
        (("info",), "path", "`path`"),
    ],
)
def test_an_argument_has_the_name_that_the_user_typed(words, name, shown):
    command = main
    for word in words:
        command = command.commands[word]
    with click.Context(command):
        assert argument(name, "Sizes" if name == "size" else "") == shown
    assert argument(name) == f"`{name}`"
    assert argument(name, "Sizes") == "`Sizes`"
