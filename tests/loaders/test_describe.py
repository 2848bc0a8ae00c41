import shutil

import pytest

from loaders.describe import describe, open_frames
from loaders.errors import InputError
from loaders.frames import FrameFolder, write_dataset_info
from loaders.hdf5 import HDF5Frames, pack_hdf5
from loaders.hub import pack_hub
from loaders.hub_frames import HubFrames


@pytest.fixture(scope="module")
def stored(tmp_path_factory, frames_root):
    """Store the small data set in each way."""
    folder = tmp_path_factory.mktemp("stored")
    pack_hdf5(frames_root, folder / "h5")
    pack_hub(frames_root, folder / "hub")
    return folder


SET_LINES = """
set free: 5 of 6 samples, 32 x 24 pixels, exposure 1
  layers: image, radiance, albedo, shading, shading_direct, shading_indirect, residual, depth, normal, \
object, part, position, roughness, metallic, light/left, light/right
  factor shape: cube, cone, torus
  factor angle: 0.0 to 90.0 degree"""


def test_describe_says_what_there_is(frames_root):
    text = describe(frames_root)
    lines = text.splitlines()
    size = sum(path.stat().st_size for path in frames_root.rglob("*") if path.is_file())
    assert lines[0] == f"tiny (folder of frames, {size / 1000:.0f} kB)"
    assert lines[1] == "Two small sets of noise."
    assert lines[2] == "licence CC-BY-4.0; made by candlelight 0.1.0, schema 1"
    assert lines[3] == f"recipe tiny (SHA-256 {'a' * 64}), seed 3"
    assert "set grid: 6 of 6 samples" in text
    assert "  factor size: 1.5, 2, 2.5 m\n  changes within a concept set: size\n" in text
    assert text.endswith(SET_LINES)


@pytest.mark.parametrize(
    ("name", "kind"), [("h5", "HDF5"), ("h5/free.h5", "HDF5"), ("hub", "Hugging Face folder")], ids=str
)
def test_describe_says_the_same_of_packs(stored, name, kind):
    text = describe(stored / name)
    assert text.startswith(f"tiny ({kind}, ")
    assert SET_LINES in text
    assert ("set grid" in text) == (name != "h5/free.h5")


def test_open_frames_picks_the_reader(datasets, stored, frames_root):
    assert isinstance(open_frames(frames_root, "grid"), FrameFolder)
    assert isinstance(open_frames(stored / "h5", "grid"), HDF5Frames)
    assert isinstance(open_frames(stored / "hub", "grid"), HubFrames)
    assert len(open_frames(stored / "h5" / "free.h5")) == 5
    assert len(open_frames(stored / "h5" / "free.h5", "free")) == 5


def test_a_single_set_need_not_be_named(frames_copy, info):
    write_dataset_info(frames_copy, info.model_copy(update={"sets": {"free": info.sets["free"]}}))
    assert open_frames(frames_copy).set_name == "free"


def test_open_frames_names_what_is_wrong(stored, frames_root, tmp_path):
    with pytest.raises(InputError, match="choose a set; expected one of: grid, free"):
        open_frames(frames_root)
    with pytest.raises(InputError, match="set `candle` is not there; expected one of: free, grid"):
        open_frames(stored / "h5", "candle")
    with pytest.raises(InputError, match="set `grid` is not there; expected one of: free"):
        open_frames(stored / "h5" / "free.h5", "grid")
    with pytest.raises(InputError, match="choose a set; expected one of: grid, free"):
        open_frames(stored / "hub")
    for path in (tmp_path, tmp_path / "none", frames_root / "dataset.json"):
        for function in (open_frames, describe):
            with pytest.raises(InputError, match=r"expected a folder of frames, .* or a Hugging Face folder"):
                function(path)
    with pytest.raises(InputError, match=r"none.h5 is missing"):
        describe(tmp_path / "none.h5")


def test_files_of_several_data_sets_are_not_mixed(stored, frames_copy, tmp_path, info):
    write_dataset_info(frames_copy, info.model_copy(update={"seed": 4}))
    pack_hdf5(frames_copy, tmp_path / "h5", sets=["free"])
    shutil.copy(stored / "h5" / "grid.h5", tmp_path / "h5")
    with pytest.raises(InputError, match="holds HDF5 files of several data sets; name one file"):
        describe(tmp_path / "h5")
    (tmp_path / "h5" / "free.h5").unlink()
    shutil.copy(stored / "h5" / "grid.h5", tmp_path / "h5" / "copy.h5")
    with pytest.raises(InputError, match="of several data sets"):
        open_frames(tmp_path / "h5", "grid")
