"""A rendered sequence and its counterfactual at one step: frames, page, packs and windows."""

import numpy as np
import pytest

from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.selection.sample_tuples import counterfactual_pairs, sequence_windows
from tests.command_line import run

SMALL = [
    *("--set", "image.width=32", "--set", "image.height=24", "--preset", "draft"),
    *("--set", "sets.passive.steps=4", "--sets", "passive"),
]


@pytest.fixture(scope="module")
def frames(kept_renderers, tmp_path_factory):
    """Four steps, and the same four with another rotation at the third, by the command line."""
    out = tmp_path_factory.mktemp("sequences") / "frames"
    change = ["--do", "rotation=90", "--step", "2"]
    text = run("counterfactual", "sequences", "--sample", "passive-000013", *change, *SMALL, "--out", out)
    assert text.splitlines()[-1].endswith("counterfactuals.html")
    return out


@pytest.mark.blender
def test_steps_before_the_intervention_are_equal_to_the_bit_and_later_ones_follow(frames):
    factual, changed = (FrameFolder(frames, name) for name in ("passive", "passive_counterfactual"))
    ids = [factual.metadata(row).id for row in range(4)]
    assert ids == [f"passive-{number:06d}" for number in range(12, 16)]
    assert [changed.metadata(row).counterfactual_of for row in range(4)] == ids
    for step in range(4):
        one, other = factual.frame(step), changed.frame(step)
        assert (one.metadata.step, other.metadata.step) == (step, step)
        equal = all(np.array_equal(one.layers[name], other.layers[name]) for name in one.layers)
        assert equal == (step < 2)
        moved = [
            name for name, value in one.metadata.factors.items() if other.metadata.factors[name] != value
        ]
        # The rotation decides where the teapot walks next, and the light follows it.
        assert moved == [[], [], ["rotation"], ["x", "y", "rotation", "spot"]][step]
        assert other.metadata.intervention == ({"rotation": 90} if step == 2 else {})


@pytest.mark.blender
def test_the_page_asks_only_at_the_step_of_the_intervention(frames):
    page = (frames / "counterfactuals.html").read_text()
    assert page.count("had rotation been 90?") > 0
    assert "had ?" not in page
    assert "passive_counterfactual-000012: nothing is changed at this step" in page


@pytest.mark.blender
def test_a_pack_of_sequences_gives_windows_and_pairs(frames, tmp_path):
    pack_hub(frames, tmp_path / "hub")
    factual, changed = (
        open_frames(tmp_path / "hub", name, layers=["image"])
        for name in ("passive", "passive_counterfactual")
    )
    assert factual.set_info.graph.node("x").previous == ("x", "rotation")
    windows = sequence_windows(changed)
    assert [window["targets"].any().item() for window in windows] == [False, True, False]
    pairs = counterfactual_pairs(factual, changed)
    assert [pair["targets"].nonzero().flatten().tolist() for pair in pairs] == [[], [], [2], []]
