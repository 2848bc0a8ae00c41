import numpy as np
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders.frames import METADATA, complete_indices
from candlelight.loaders.looking.frame_checks import clipped_share, some_metadata


def replace_in_first(frames, old, new):
    (path, *_) = sorted((frames / "samples" / "grid").rglob(METADATA))
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


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


def test_light_without_albedo_is_reported(frames_copy):
    assert "without albedo" not in CliRunner().invoke(main, ["info", str(frames_copy)]).output
    replace_in_first(frames_copy, '"identity_error": 1e-7', '"identity_error": 0.93')
    told = CliRunner().invoke(main, ["info", str(frames_copy)]).output
    assert (
        "  grid-000000 has light without albedo (identity_error 0.93, expected at most 0.001), from " in told
    )
    told = CliRunner().invoke(main, ["info", str(frames_copy), "--verify"]).output
    assert "wrong layers: grid-000000 has light without albedo" in told
