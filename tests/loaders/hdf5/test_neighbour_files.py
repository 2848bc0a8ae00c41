"""HDF5 files of several packs in one folder: they are never read as splits of one pack."""

import shutil

import pytest

from candlelight.loaders.frames import write_dataset_info
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.looking.look import describe
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.verification.verify_pack import verify_pack
from tests.refusals import refused

PLANS = {
    "red": SplitPlan(factor="color", values={"red": ("red",), "blue": ("blue",)}),
    "swapped": SplitPlan(factor="color", values={"red": ("blue",), "blue": ("red",)}),
    "sizes": SplitPlan(factor="size", values={"small": ("1.5",), "large": ("2", "2.5")}),
    "whole": SplitPlan(),
}


@pytest.fixture(scope="module")
def packs(tmp_path_factory, frames_root):
    """Pack one set in several ways, each in its own folder."""
    root = tmp_path_factory.mktemp("packs")
    for name, plan in PLANS.items():
        pack_hdf5(frames_root, root / name, ["grid"], "none", layers=["image"], plan=plan)
    return root


@pytest.fixture
def mix(packs, tmp_path):
    """Return a function that copies files into one folder."""

    def copy(*names):
        folder = tmp_path / "h5"
        folder.mkdir()
        for name in names:
            shutil.copy(packs / name, folder / name.replace("swapped/", "new-").rpartition("/")[2])
        return folder

    return copy


def test_splits_of_one_pack_are_accepted(mix):
    folder = mix("red/grid-red.h5", "red/grid-blue.h5")
    assert len(open_frames(folder, "grid", "blue")) == 3
    assert verify_pack(folder).whole
    (folder / "grid-red.h5").unlink()
    (damage,) = verify_pack(folder).damaged
    assert str(damage) == f"{folder}/grid-red.h5: is missing"
    assert verify_pack(folder / "grid-blue.h5").whole


@pytest.mark.parametrize(
    ("files", "held"),
    [
        (("red/grid-red.h5", "red/grid-blue.h5", "sizes/grid-small.h5"), r"sample \d"),
        (("red/grid-red.h5", "red/grid-blue.h5", "whole/grid.h5"), r"sample \d"),
        (("red/grid-red.h5", "swapped/grid-red.h5"), "split `red`"),  # without common samples
    ],
)
def test_files_of_two_packs_are_refused(mix, files, held):
    """A model trained on `red` and tested on `small` would be tested on training samples."""
    folder = mix(*files)
    with refused(rf"grid.*.h5 and .*grid.*.h5 both hold {held} of set `grid`, .* keep the files of one pack"):
        open_frames(folder, "grid", "red")
    assert [damage for damage in verify_pack(folder).damaged if f"both hold {held[:5]}" in damage.reason]


def test_packing_next_to_an_earlier_pack_of_the_set_is_refused(mix, frames_root):
    folder = mix("whole/grid.h5")
    before = (folder / "grid.h5").read_bytes()
    with refused(r"grid.h5 belongs to an earlier pack of set `grid` .*; delete it, or name"):
        pack_hdf5(frames_root, folder, ["grid"], plan=PLANS["red"])
    assert [path.name for path in folder.iterdir()] == ["grid.h5"]
    assert (folder / "grid.h5").read_bytes() == before


def test_files_of_other_sets_and_foreign_files_are_ignored(mix, frames_root):
    folder = mix("whole/grid.h5")
    (folder / "notes.h5").write_text("mine")
    for name in ("free", "grid"):
        pack_hdf5(frames_root, folder, [name], layers=["image"])
    assert sorted(path.name for path in folder.iterdir()) == ["free.h5", "grid.h5", "notes.h5"]


def test_files_of_several_data_sets_are_not_mixed(mix, frames_copy, info):
    folder = mix("whole/grid.h5")
    write_dataset_info(frames_copy, info.model_copy(update={"seed": 4}))
    pack_hdf5(frames_copy, folder, ["free"], layers=["image"])
    with refused("holds HDF5 files of several data sets; name one file"):
        describe(folder)
