"""Concept sets that an evaluation scores, with their controls."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from candlelight.evaluation.concepts.exchange_groups import ImageGroups, known_groups
from candlelight.evaluation.concepts.named_generator import named_generator
from candlelight.evaluation.concepts.set_images import set_images
from candlelight.evaluation.concepts.set_scores import Concept
from candlelight.evaluation.running.batches import Fingerprint, check_srgb_image
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import ConceptSet, ConceptSets, Images, match_controls


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

    def groups(self, others: Images) -> ImageGroups | None:
        """Return the groups of the set's images and of other images, for the permutation test."""
        return known_groups(set_images(self.view, self.images), others)

    def key(self, key: Mapping[str, Any] | None, fingerprint: Fingerprint) -> dict[str, Any] | None:
        """Extend the key of a model to the key of the set, and add the rows to ``fingerprint``."""
        for view, images in (
            (self.view, self.images),
            *((self.control_view, control) for control in self.controls),
        ):
            assert view is not None  # for the type checker: controls come with their view
            for row in images.rows:
                fingerprint.add(view.ids[row], check_srgb_image(view[row]))
        if key is None:
            return None
        rows = {"rows": self.images.rows, "controls": [control.rows for control in self.controls]}
        read = {"concept": self.concept, "fixed": self.images.fixed, "read": fingerprint.hexdigest()}
        return {**key, **read, **rows}


def choose_sets(
    albedo: ConceptSets | None,
    illumination: ConceptSets | None,
    controls: Mapping[Concept, ConceptSets],
    max_sets: int | None,
    seed: int,
) -> list[ChosenSet]:
    """Choose all concept sets of each view, or a random subset of them, in their order.

    Args:
        albedo: as in `score_concepts`.
        illumination: as there.
        controls: as there.
        max_sets: as there.
        seed: as there.

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
        for what, images in (("set", one.images), *(("control of the set", some) for some in one.controls)):
            if len(images.rows) < 2:
                shared = ", ".join(f"{name}={value}" for name, value in images.fixed.items())
                count = len(images.rows)
                raise InputError(
                    f"{one.concept} {what} with {shared}: expected at least 2 images, got {count}; add images"
                )
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
