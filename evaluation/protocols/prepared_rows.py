"""A view whose rows are prepared as a protocol prepares them."""

from collections.abc import Callable

from candlelight.loaders.views import DecomposedImage, Decompositions


class PreparedRows:
    """Rows of a view, each changed by a function as it is read; the members of `Decompositions`.

    Args:
        rows: the view.
        prepare: makes the row that is shown to a model and scored.
    """

    def __init__(self, rows: Decompositions, prepare: Callable[[DecomposedImage], DecomposedImage]) -> None:
        self._rows, self._prepare = rows, prepare
        self.identity, self.explains = rows.identity, rows.explains
        self.ids, self.groups = rows.ids, rows.groups

    @property
    def known_ids(self) -> frozenset[str]:
        """Ids of all rows of the data; listing them may take long."""
        return self._rows.known_ids

    def __len__(self) -> int:
        """Count the rows."""
        return len(self._rows)

    def __getitem__(self, row: int, /) -> DecomposedImage:
        """Read and prepare one row."""
        return self._prepare(self._rows[row])
