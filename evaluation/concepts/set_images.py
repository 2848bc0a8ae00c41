"""The images of one concept set, as a view of their own."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from candlelight.loaders.views import ConceptSet, ConceptSets, DataIdentity

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any


@dataclass(frozen=True, eq=False)
class SetImages:
    """Rows of one concept set, with the members of `candlelight.loaders.views.Images`."""

    view: ConceptSets
    rows: tuple[int, ...]

    @property
    def identity(self) -> DataIdentity:
        """Identity of the whole view."""
        return self.view.identity

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the rows."""
        return tuple(self.view.ids[row] for row in self.rows)

    @property
    def groups(self) -> tuple[str, ...]:
        """Groups of the rows."""
        return tuple(self.view.groups[row] for row in self.rows)

    @property
    def known_ids(self) -> frozenset[str]:
        """Ids of all rows of the data."""
        return self.view.known_ids

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.rows)

    def __getitem__(self, row: int) -> Tensor:
        """Read one image."""
        return self.view[self.rows[row]]


def set_images(view: ConceptSets, chosen: ConceptSet) -> SetImages:
    """Make a view of the images of one concept set, for `score_tcav`.

    Args:
        view: from `candlelight.loaders.views.open_concepts`.
        chosen: one of its ``sets``, or a control that `candlelight.loaders.views.match_controls` found in it.

    Example:
        >>> from candlelight.loaders.views import open_concepts
        >>> sets = open_concepts("frames", set_name="albedo")  # doctest: +SKIP
        >>> {f"set {n}": set_images(sets, one) for n, one in enumerate(sets.sets)}  # doctest: +SKIP
    """
    return SetImages(view, chosen.rows)
