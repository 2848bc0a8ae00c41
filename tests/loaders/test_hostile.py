"""Malicious data sets, made to reach other paths, to fill memory, or to write to a terminal."""

import json
import resource
import struct
import zlib
from contextlib import suppress

import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders.errors import InputError
from candlelight.loaders.exports import export_concepts
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import frame_path, read_frame, write_dataset_info
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.looking.look import describe
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.schema import FactorInfo
from tests.loaders.edits import edit_json
from tests.refusals import refused


@pytest.mark.parametrize("name", ["../up", ".hidden", "a\0b", "", "C:\\x"])
def test_sets_with_paths_as_names_are_neither_read_nor_packed(frames_copy, info, tmp_path, name):
    write_dataset_info(frames_copy, info.model_copy(update={"sets": {name: info.sets["grid"]}}))
    for use in (
        lambda: FrameFolder(frames_copy, name),
        lambda: open_frames(frames_copy),
        lambda: pack_hdf5(frames_copy, tmp_path / "out"),
        lambda: pack_hub(frames_copy, tmp_path / "out"),
        lambda: describe(frames_copy),
    ):
        with refused("expected letters, digits"):
            use()
    assert {path.name for path in tmp_path.iterdir()} == {"frames"}


def edit_metadata(frames, **changes):
    for path in frames.glob("samples/grid/*/*/metadata.json"):
        edit_json(path, lambda text: text.update(changes))
        path.with_name("SHA256SUMS").unlink(missing_ok=True)  # a forger would replace the checksums too


def test_metadata_do_not_decide_the_paths_of_samples(frames_copy, tmp_path):
    """Paths follow from the folder of a sample, not from its metadata."""
    edit_metadata(frames_copy, id="../../../up", unit="..", group="/etc/passwd")
    (path,) = pack_hdf5(frames_copy, tmp_path / "packed", sets=["grid"])
    assert path == tmp_path / "packed" / "grid.h5"
    pack_hub(frames_copy, tmp_path / "packed" / "hub", sets=["grid"])
    edit_metadata(frames_copy, set="../up")
    with refused(r"holds sample 0 of set `\.\./up`; delete it"):
        pack_hdf5(frames_copy, tmp_path / "packed", sets=["grid"])
    assert {path.name for path in tmp_path.iterdir()} == {"frames", "packed"}


@pytest.mark.parametrize(
    ("name", "value"), [("temperature", "/../../up"), ("material", "../up"), ("scene", "..")]
)
def test_exports_write_only_inside_their_folder(frames_copy, info, tmp_path, name, value):
    factors = {"scene": "cube", "texturing": "rgb", "temperature": 2500, "material": 0, "light_azimuth": 10}
    listed = {**factors, name: value}
    infos = tuple(FactorInfo(name=n, kind="categorical", values=(v,)) for n, v in listed.items())
    concepts = info.sets["grid"].model_copy(update={"factors": infos, "varies": ("light_azimuth",)})
    write_dataset_info(frames_copy, info.model_copy(update={"sets": {"grid": concepts}}))
    edit_metadata(frames_copy, factors=listed)
    with refused(f"{name} `.*`: expected .* to name a folder"):
        export_concepts(frames_copy, tmp_path / "out")
    assert not [path for path in tmp_path.rglob("*.png") if not path.is_relative_to(frames_copy)]


def chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


@pytest.mark.parametrize("kind", [b"iCCP", b"zTXt", b"IDAT"])
def test_a_png_bomb_takes_little_memory(frames_copy, kind):
    """The bomb is a chunk of 100 MB of zeros, as metadata or as pixels."""
    path = frame_path(frames_copy, "grid", 0)
    bomb = zlib.compress(bytes(10**8), 1)
    named = bomb if kind == b"IDAT" else b"x\0\0" + bomb
    data = (path / "image.png").read_bytes()
    (path / "image.png").write_bytes(data[:33] + chunk(kind, named) + data[33:])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with suppress(InputError):
        read_frame(path, ["image"])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # kB


ESCAPES = "red\x1b[2J\x9b1A\nset forged: 9 of 9\u202eelpmas\x7f"
SHOWN = r"red\u001b[2J\u009b1A\u000aset forged: 9 of 9\u202eelpmas\u007f"


@pytest.mark.parametrize("as_json", [False, True])
def test_escape_sequences_are_not_printed(frames_copy, info, as_json):
    """Put a text everywhere where a data set may have one."""
    factors = (FactorInfo(name="shape", kind="categorical", values=("cube", ESCAPES), unit=ESCAPES),)
    sets = {"grid": info.sets["grid"].model_copy(update={"factors": factors, "varies": (ESCAPES,)})}
    changes = {"description": ESCAPES, "licence": ESCAPES, "sets": sets}
    edit_metadata(frames_copy, factors={"shape": ESCAPES})
    write_dataset_info(frames_copy, info.model_copy(update=changes))
    result = CliRunner().invoke(main, ["info", str(frames_copy), *(["--json"] if as_json else [])])
    assert result.exit_code == 0, result.output
    lines = result.output.rstrip("\n").split("\n")
    assert all(character.isprintable() for line in lines for character in line)
    if as_json:
        assert json.loads(result.output)["description"] == ESCAPES
    else:
        assert SHOWN in result.output
        assert not any(line.startswith("set forged") for line in lines)


def test_messages_are_one_line_without_escape_sequences():
    assert str(InputError(f"factor `{ESCAPES}`")) == f"factor `{SHOWN}`".replace(r"\u000a", " ")
