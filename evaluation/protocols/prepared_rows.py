"""A view whose rows are prepared as a protocol prepares them."""

from collections.abc import Callable

from loaders.views import DataIdentity, DecomposedImage, Decompositions
from loaders.views.view_protocols import Explains


class PreparedRows:
    """Rows of a view, each changed by a function as it is read; the members of `Decompositions`.

    Args:
        rows: the view.
        prepare: makes the row that is shown to a model and scored.
    """

    def __init__(self, rows: Decompositions, prepare: Callable[[DecomposedImage], DecomposedImage]) -> None:
        self._rows, self._prepare = rows, prepare

    @property
    def identity(self) -> DataIdentity:
        """Name, set and split of the data."""
        return self._rows.identity

    @property
    def ids(self) -> tuple[str, ...]:
        """Id of each row."""
        return self._rows.ids

    @property
    def groups(self) -> tuple[str, ...]:
        """Scene, object or unit of each row."""
        return self._rows.groups

    @property
    def known_ids(self) -> frozenset[str]:
        """Ids of all rows of the data."""
        return self._rows.known_ids

    @property
    def explains(self) -> Explains:
        """Part of the image that reflectance times shading explains."""
        return self._rows.explains

    def __len__(self) -> int:
        """Count the rows."""
        return len(self._rows)

    def __getitem__(self, row: int, /) -> DecomposedImage:
        """Read and prepare one row."""
        return self._prepare(self._rows[row])
