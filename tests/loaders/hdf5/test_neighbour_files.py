"""HDF5 files of several packs in one folder: they are never read as splits of one pack."""

import shutil

import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders.errors import InputError
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames, describe_conflict
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.verification.verify_pack import verify_pack

pytest.importorskip("torch", exc_type=ImportError)

RED = SplitPlan(factor="color", values={"red": ("red",), "blue": ("blue",)})
SIZES = SplitPlan(factor="size", values={"small": ("1.5",), "large": ("2", "2.5")})


@pytest.fixture(scope="module")
def stored(tmp_path_factory, frames_root):
    """Pack one set in three ways, each in its own folder."""
    root = tmp_path_factory.mktemp("stored")
    for name, plan in (("red", RED), ("sizes", SIZES), ("whole", SplitPlan())):
        pack_hdf5(frames_root, root / name, ["grid"], "none", layers=["image"], plan=plan)
    return root


def mix(stored, folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        shutil.copy(stored / name, folder)
    return folder


def test_files_are_not_written_among_frames(frames_root):
    with pytest.raises(InputError, match="holds frames or a Hugging Face folder; name another"):
        pack_hdf5(frames_root, frames_root, ["grid"])


def test_splits_of_one_pack_are_accepted(stored, tmp_path):
    folder = mix(stored, tmp_path / "h5", "red/grid-red.h5", "red/grid-blue.h5")
    assert describe_conflict(map(HDF5Frames, folder.glob("*.h5"))) == ""
    assert len(open_frames(folder, "grid", "blue")) == 3
    assert verify_pack(folder).whole


@pytest.mark.parametrize("other", ["sizes/grid-small.h5", "whole/grid.h5"])
def test_a_sample_in_two_files_is_refused(stored, tmp_path, other):
    """A model trained on `red` and tested on `small` would be tested on training samples."""
    folder = mix(stored, tmp_path / "h5", "red/grid-red.h5", "red/grid-blue.h5", other)
    message = r"grid.*.h5 and grid.*.h5 both hold sample \d of set `grid`, .* keep the files of one pack"
    with pytest.raises(InputError, match=message):
        open_frames(folder, "grid", "red")
    result = CliRunner().invoke(main, ["info", str(folder)])
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert not verify_pack(folder).whole


def test_two_files_of_one_split_are_refused_even_without_common_samples(stored, frames_root, tmp_path):
    folder = mix(stored, tmp_path / "h5", "red/grid-red.h5")
    shutil.move(folder / "grid-red.h5", folder / "old.h5")
    swapped = SplitPlan(factor="color", values={"red": ("blue",), "blue": ("red",)})
    pack_hdf5(frames_root, tmp_path / "new", ["grid"], layers=["image"], plan=swapped)
    shutil.copy(tmp_path / "new" / "grid-red.h5", folder)
    with pytest.raises(InputError, match=r"grid-red.h5 and old.h5 both hold split `red` of set `grid`"):
        open_frames(folder, "grid")


def test_packing_next_to_an_earlier_pack_of_the_set_is_refused(stored, frames_root, tmp_path):
    folder = mix(stored, tmp_path / "h5", "whole/grid.h5")
    before = (folder / "grid.h5").read_bytes()
    with pytest.raises(
        InputError, match=r"grid.h5 belongs to an earlier pack of set `grid` .*; delete it, or name"
    ):
        pack_hdf5(frames_root, folder, ["grid"], plan=RED)
    assert [path.name for path in folder.iterdir()] == ["grid.h5"]
    assert (folder / "grid.h5").read_bytes() == before


def test_files_of_other_sets_and_foreign_files_are_ignored(stored, frames_root, tmp_path):
    folder = mix(stored, tmp_path / "h5", "whole/grid.h5")
    (folder / "notes.h5").write_text("mine")
    pack_hdf5(frames_root, folder, ["free"], layers=["image"])
    pack_hdf5(frames_root, folder, ["grid"], layers=["image"])
    assert sorted(path.name for path in folder.iterdir()) == ["free.h5", "grid.h5", "notes.h5"]
