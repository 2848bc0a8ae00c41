import numpy as np

from loaders.frame_folder import FrameFolder
from loaders.frames import write_dataset_info, write_frame
from loaders.samples import Frame
from loaders.selection.counterfactual_rows import closest_relative, twin_rows


def write_set(root, info, make_frame, changes):
    write_dataset_info(root, info)
    for index, change in enumerate(changes):
        frame = make_frame("grid", index)
        write_frame(root, Frame(frame.metadata.model_copy(update=change), frame.layers))
    return FrameFolder(root, "grid")


def test_twin_rows_joins_two_sets_by_id(tmp_path, info, make_frame):
    facts = write_set(tmp_path / "facts", info, make_frame, [{"id": "p"}, {"id": "q"}, {"id": "r"}])
    origins = ["r", "p", "elsewhere", None]
    twins = write_set(
        tmp_path / "twins", info, make_frame, [{"counterfactual_of": origin} for origin in origins]
    )
    assert twin_rows(facts, twins).tolist() == [2, 0, -1, -1]


def test_without_metadata_or_relatives_it_is_the_lowest(make_frame):
    candidates = np.array([4, 6])
    assert closest_relative(None, 0, candidates) == 4
    assert closest_relative(lambda row: make_frame("grid", row).metadata, 0, candidates) == 4
