import numpy as np
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders.frames import METADATA, complete_indices
from candlelight.loaders.looking.clipping import clipped_share


def test_over_exposed_images_are_reported(frames_copy):
    indices = complete_indices(frames_copy, "grid")
    before = clipped_share(frames_copy, "grid", indices)
    assert "over-exposed" not in CliRunner().invoke(main, ["info", str(frames_copy)]).output
    (path, *_) = sorted((frames_copy / "samples" / "grid").rglob(METADATA))
    text = path.read_text()
    assert '"clipped": 0.0' in text
    path.write_text(text.replace('"clipped": 0.0', '"clipped": 0.9'))
    share = clipped_share(frames_copy, "grid", indices)
    np.testing.assert_allclose(share - before, 0.9 / len(indices))
    told = CliRunner().invoke(main, ["info", str(frames_copy)]).output
    assert f"  {share:.0%} of the pixels of image are over-exposed; lower `exposure`" in told
    assert clipped_share(frames_copy, "grid", indices[:0]) is None
