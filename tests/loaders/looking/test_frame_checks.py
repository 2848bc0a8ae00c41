import numpy as np
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders.frames import METADATA, complete_indices, frame_path
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.looking.contents import clipped_share, some_metadata
from candlelight.loaders.packs.split_plan import SplitPlan
from tests.loaders.edits import renew_sums


def replace_in_first(frames, old, new):
    """Replace a text in the metadata of the first frame, and their checksum."""
    path = frame_path(frames, "grid", 0) / METADATA
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    renew_sums(path.parent)


def test_over_exposed_images_are_reported(frames_copy):
    indices = complete_indices(frames_copy, "grid")
    before = clipped_share(some_metadata(frames_copy, "grid", indices))
    assert "over-exposed" not in CliRunner().invoke(main, ["info", str(frames_copy)]).output
    replace_in_first(frames_copy, '"clipped": 0.0', '"clipped": 0.9')
    share = clipped_share(some_metadata(frames_copy, "grid", indices))
    np.testing.assert_allclose(share - before, 0.9 / len(indices))
    told = CliRunner().invoke(main, ["info", str(frames_copy)]).output
    assert f"  {share:.0%} of the pixels of image are over-exposed; lower `exposure`" in told
    assert clipped_share(some_metadata(frames_copy, "grid", indices[:0])) is None


def test_light_without_albedo_is_reported_of_frames_and_packs(frames_copy, tmp_path):
    assert "without albedo" not in CliRunner().invoke(main, ["info", str(frames_copy)]).output
    replace_in_first(frames_copy, '"identity_error": 1e-7', '"identity_error": 0.93')
    options = {"layers": ["image"], "plan": SplitPlan(factor="color", values={"test": ("blue",)})}
    pack_hdf5(frames_copy, tmp_path / "h5", ["grid"], **options)
    pack_hub(frames_copy, tmp_path / "hub", ["grid"], **options)
    line = "grid-000000 has light without albedo (identity_error 0.93, expected at most 0.001), from "
    for path in (frames_copy, tmp_path / "h5", tmp_path / "hub"):
        told = CliRunner().invoke(main, ["info", str(path)]).output
        assert told.count(f"  {line}") == 1, path
        checked = path / "grid-train.h5" if path.name == "h5" else path  # a process for each file takes long
        told = CliRunner().invoke(main, ["info", str(checked), "--verify"]).output
        assert told.count(f"wrong layers: {line}") == 1, path
