"""Concept sets and their controls: their images, and the choice of the sets that are scored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from candlelight.evaluation.concepts.permutation import ImageGroups, known_groups
from candlelight.evaluation.concepts.set_scores import Concept
from candlelight.evaluation.views import ConceptSet, ConceptSets, DataIdentity, Images, match_controls
from candlelight.evaluation.views.named_streams import named_generator
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError


@dataclass(frozen=True, eq=False)
class SetImages:
    """Rows of one concept set, with the members of `candlelight.evaluation.views.Images`."""

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
    """Make a view of the images of one concept set, for `TCAVData`.

    Args:
        view: from `open_data("concepts", ...)`.
        chosen: one of its ``sets``, or a control that `candlelight.evaluation.views.match_controls` found in
            it.

    Example:
        >>> from candlelight.evaluation.views import open_data
        >>> sets = open_data("concepts", "frames", set_name="albedo")  # doctest: +SKIP
        >>> {f"set {n}": set_images(sets, one) for n, one in enumerate(sets.sets)}  # doctest: +SKIP
    """
    return SetImages(view, chosen.rows)


@dataclass(frozen=True)
class ChosenSet:
    """A concept set with its images, and its controls if it has any."""

    concept: Concept
    view: ConceptSets
    images: ConceptSet
    control_view: ConceptSets | None
    controls: tuple[ConceptSet, ...] = ()

    @property
    def labels(self) -> list[str]:
        """Name each control by the values that the concept set does not fix, such as ``material=1``."""
        return [
            " ".join(f"{name}={value}" for name, value in one.fixed.items() if name not in self.images.fixed)
            or f"control {number + 1}"
            for number, one in enumerate(self.controls)
        ]

    @property
    def title(self) -> str:
        """Name the set by its concept and its fixed factors."""
        shared = ", ".join(f"{name}={value}" for name, value in self.images.fixed.items())
        return f"{self.concept} set with {shared}"

    @property
    def facts(self) -> dict[str, Any]:
        """Describe the set and its controls, for the key of a finished step."""
        rows = {"rows": self.images.rows, "controls": [control.rows for control in self.controls]}
        return {"concept": self.concept, "fixed": self.images.fixed, **rows}

    @property
    def shown(self) -> "SetImages":
        """View of the images of the set."""
        return set_images(self.view, self.images)

    @property
    def shown_controls(self) -> "list[SetImages]":
        """View of the images of each control."""
        if self.control_view is None:
            return []
        return [set_images(self.control_view, one) for one in self.controls]

    def groups(self, others: Images) -> ImageGroups | None:
        """Return the groups of the set's images and of other images, for the permutation test."""
        return known_groups(self.shown, others)


def choose_sets(
    albedo: ConceptSets | None,
    illumination: ConceptSets | None,
    controls: Mapping[Concept, ConceptSets],
    max_sets: int | None,
    seed: int,
) -> list[ChosenSet]:
    """Choose all concept sets of each view, or a random subset of them, in their order.

    Args:
        albedo: as in `CSMData`.
        illumination: as there.
        controls: as there.
        max_sets: maximal number of sets of each kind; all if None.
        seed: seed of the choice.

    Raises:
        InputError: there is no set, a view has sets in which something else varies, a set has no control,
            there are controls without sets, or a set has fewer than 2 images.
    """
    check_kind("albedo", albedo)
    check_kind("illumination", illumination)
    for concept, view in controls.items():
        check_control(concept, view)
    views: dict[Concept, ConceptSets | None] = {"albedo": albedo, "illumination": illumination}
    for concept in controls:
        if views[concept] is None:
            raise InputError(f"control of {concept}: there are no {concept} sets to compare with it; omit it")
    found = []
    for concept, sets_view in views.items():
        if sets_view is None:
            continue
        order = torch.randperm(len(sets_view.sets), generator=named_generator(seed, concept))
        sets = [sets_view.sets[number] for number in sorted(order[:max_sets].tolist())]
        control = controls.get(concept)
        matched = [()] * len(sets) if control is None else match_controls(sets, control.sets)
        found += [
            ChosenSet(concept, sets_view, pair[0], control, pair[1])
            for pair in zip(sets, matched, strict=True)
        ]
    if not found:
        raise InputError("expected concept sets of albedo or illumination, got none of either")
    for one in found:
        for images in (one.images, *one.controls):
            if (count := len(images.rows)) < 2:
                what = "control of the " if images is not one.images else ""
                raise InputError(f"{what}{one.title}: expected at least 2 images, got {count}; add images")
    return found


def check_kind(wanted: Concept, view: ConceptSets | None) -> None:
    """Check that the right concept varies in concept sets.

    Raises:
        InputError: illumination varies in albedo sets, albedo in illumination sets, or the sets are controls.
    """
    if view is not None and view.varies not in (wanted, None):
        swapped = view.varies in ("albedo", "illumination")
        cure = "swap the two" if swapped else f"name a set in which the {wanted} varies"
        raise InputError(
            f"`{view.identity.set_name or view.identity.name}` was given for {wanted}, but in its sets the "
            f"{view.varies} varies; {cure}"
        )


def check_control(concept: str, view: ConceptSets) -> None:
    """Check that neither concept varies in control sets.

    Raises:
        InputError: the concept is not one of the two, or albedo or illumination varies in the sets.
    """
    check_choice("controls", concept, Concept)
    if view.varies in ("albedo", "illumination"):
        raise InputError(
            f"`{view.identity.set_name or view.identity.name}` was given as the control of {concept}, but in "
            f"its sets the {view.varies} varies; name sets in which only camera or poses vary"
        )
