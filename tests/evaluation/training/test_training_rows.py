"""Rows of a training: which of them stay in memory."""

import pytest
import torch

from candlelight.evaluation.training import training_rows
from candlelight.evaluation.training.training_rows import ImageRows
from candlelight.evaluation.views.image_tensors import ResizedImages

COUNT, SIDE = 10, 8


class CountedReads:
    """Images of several sizes that count how often each row is read."""

    def __init__(self, view) -> None:
        self.identity, self.ids, self.groups, self.known_ids = view.identity, view.ids, view.groups, view.ids
        self._view, self.reads = view, [0] * len(view)

    def __len__(self) -> int:
        return len(self._view)

    def __getitem__(self, row: int) -> torch.Tensor:
        self.reads[row] += 1
        return self._view[row]


@pytest.mark.parametrize(("room", "twice"), [(COUNT, 0), (3, COUNT - 3)])
def test_no_more_images_are_kept_than_there_is_room_for(
    memory_view, monkeypatch, room: int, twice: int
) -> None:
    # The room is counted in images as they are learned, not as large as they are stored.
    monkeypatch.setattr(training_rows, "CACHE_BYTES", room * 3 * SIDE * SIDE * 4 + 5)
    images = [torch.full((3, 30 + row, 40), row / COUNT) for row in range(COUNT)]
    counted = CountedReads(memory_view(images))
    reader = ImageRows(ResizedImages(counted, (SIDE, SIDE)))
    counted.reads = [0] * COUNT
    for _ in range(2):
        read = reader.read(range(COUNT))
        torch.testing.assert_close(read[:, 1, 2, 3], torch.arange(COUNT) / COUNT)
    assert sorted(counted.reads) == [1] * (COUNT - twice) + [2] * twice
