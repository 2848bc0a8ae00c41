import numpy as np
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders.frames import METADATA, complete_indices
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.looking.contents import clipped_share, some_metadata
from candlelight.loaders.packs.split_plan import read_split_plan
from candlelight.loaders.verification.checksums import SUMS, file_sha256, parse_sums, sums_text


def replace_in_first(frames, old, new):
    """Replace a text in the metadata of the first frame, and their checksum."""
    (path, *_) = sorted((frames / "samples" / "grid").rglob(METADATA))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    sums = path.with_name(SUMS)
    sums.write_text(sums_text(parse_sums(sums.read_bytes()) | {METADATA: file_sha256(path)}))


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
    plan = read_split_plan(("train=red", "test=blue"), 0, "color", ())
    pack_hdf5(frames_copy, tmp_path / "h5", sets=["grid"], plan=plan)
    pack_hub(frames_copy, tmp_path / "hub", sets=["grid"], plan=plan)
    line = "grid-000000 has light without albedo (identity_error 0.93, expected at most 0.001), from "
    for path in (frames_copy, tmp_path / "h5", tmp_path / "hub"):
        told = CliRunner().invoke(main, ["info", str(path)]).output
        assert told.count(f"  {line}") == 1, path
        told = CliRunner().invoke(main, ["info", str(path), "--verify"]).output
        assert told.count(f"wrong layers: {line}") == 1, path
