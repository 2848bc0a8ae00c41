import numpy as np

from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.selection.counterfactual_rows import choose_counterfactual_row, counterfactual_rows


def write_set(root, info, make_frame, changes):
    write_dataset_info(root, info)
    for index, change in enumerate(changes):
        frame = make_frame("grid", index)
        write_frame(root, Frame(frame.metadata.model_copy(update=change), frame.layers))
    return FrameFolder(root, "grid")


def test_counterfactuals_are_joined_to_their_factuals_by_id(tmp_path, info, make_frame):
    facts = write_set(tmp_path / "facts", info, make_frame, [{"id": "p"}, {"id": "q"}, {"id": "r"}])
    origins = ["r", "p", "elsewhere", None]
    counterfactuals = write_set(
        tmp_path / "counterfactuals", info, make_frame, [{"counterfactual_of": origin} for origin in origins]
    )
    assert counterfactual_rows(facts, counterfactuals).tolist() == [2, 0, -1, -1]


def test_the_lowest_row_is_chosen_without_a_related_row(make_frame):
    candidates = np.array([4, 6])
    assert choose_counterfactual_row(None, 0, candidates) == 4
    assert choose_counterfactual_row(lambda row: make_frame("grid", row).metadata, 0, candidates) == 4
