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
from candlelight.loaders.errors import argument
from candlelight.loaders.files.layer_codecs import decode_npz, decode_png
from candlelight.loaders.frames import frame_path
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.public.file_rows import read_table
from tests.refusals import refused


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
def read_calls(frames_root, stored):
    sample = frame_path(frames_root, "grid", 5)
    packed = stored / "hdf5" / "grid.h5"
    return (
        lambda: HDF5Frames(packed),
        lambda: read_table(packed, "index"),
        lambda: decode_npz(sample / "layers.npz", ["depth"], 8, 8),
        lambda: decode_png(sample / "image.png"),
    )


def test_lack_of_memory_is_not_reported_as_damage(read_calls, raise_on_open):
    raise_on_open(MemoryError())
    for read in read_calls:
        with pytest.raises(MemoryError):
            read()


def test_missing_system_functions_are_not_reported_as_damage(read_calls, raise_on_open):
    raise_on_open(OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)))
    for read in read_calls:
        with refused(r"cannot be read.*: Function not implemented$"):
            read()


def test_commands_report_lack_of_memory_in_one_line(stored, raise_on_open):
    raise_on_open(MemoryError("Unable to allocate 32 TiB"))
    done = CliRunner().invoke(main, ["info", str(stored / "hdf5" / "grid.h5")])
    message = (
        "memory ran out (Unable to allocate 32 TiB); end other programs, use fewer workers or smaller images"
    )
    assert (done.exit_code, done.output) == (2, f"Error: {message}\n")


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
