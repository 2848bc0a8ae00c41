"""The images of concept sets, controls and negatives, and their rows at a layer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.concepts.activations import batch_gradients
from candlelight.evaluation.concepts.cav import named_generator
from candlelight.evaluation.concepts.cav_diagnostics import (
    Probe,
    check_finite_rows,
    common_size,
    hidden_rows,
    resize_linear,
)
from candlelight.evaluation.concepts.permutation import ImageGroups, known_groups
from candlelight.evaluation.concepts.rows import RowSource, StoredRows
from candlelight.evaluation.concepts.sensitivity import Target
from candlelight.evaluation.concepts.set_scores import Concept
from candlelight.evaluation.run.batches import Batch, Fingerprint, check_srgb_image, read_batches
from candlelight.evaluation.run.model_outputs import model_errors, run_in_halves
from candlelight.evaluation.run.named_models import decode, to_device
from candlelight.evaluation.views import ConceptSet, ConceptSets, DataIdentity, Images, match_controls
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


_ADVISED = 20  # Kim et al. 2018, Gupta et al. 2022


def few_images(counts: Mapping[str, int]) -> list[str]:
    """Word a note on each set of images with fewer than 20, for the details of a result.

    Args:
        counts: number of images in each set.

    Example:
        >>> few_images({"concept `red`": 12, "negatives": 40})
        ['concept `red`: at least 20 images are advised, got 12']
    """
    return [
        f"{name}: at least {_ADVISED} images are advised, got {count}"
        for name, count in counts.items()
        if count < _ADVISED
    ]


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
    """Make a view of the images of one concept set, for `score_tcav`.

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


class LayerRows(NamedTuple):
    """One flattened row for each image, for each layer; and the height and width of the images."""

    rows: dict[str, Float[Tensor, "images _"] | RowSource]
    size: tuple[int, int]


def read_activations(
    probe: Probe, layers: Sequence[str], images: Images, fingerprint: Fingerprint
) -> LayerRows:
    """Compute the outputs of hidden layers for all images, float32, on the device of the probe.

    One pass reads all layers, and stops after the last of them. `read_gradients` refuses layers that run
    twice.

    Args:
        probe: the network, and how it is read.
        layers: names of the layers, at least one.
        images: a view of images, sRGB-encoded.
        fingerprint: the images are added to it.

    Raises:
        InputError: there is no image, images have several sizes, a layer cannot be read, or an activation is
            not finite.
    """
    whole: dict[str, Tensor | StoredRows] = {}
    size = None
    for batch in read_batches(images, probe.batch_size, _pixels, fingerprint, images.identity.name):
        linear = _prepared(probe, batch)
        size = common_size([size, (linear.shape[2], linear.shape[3])])
        parts = hidden_rows(probe, layers, linear)
        for layer, part in zip(layers, parts, strict=True):
            values = part.float().to(probe.device)
            check_finite_rows(f"model `{probe.named.identity.name}`, layer `{layer}`", values, batch.ids)
            whole[layer] = probe.storage.fill(whole.get(layer), values, batch.rows[0], len(images.ids))
    assert size is not None  # `read_batches` refuses an empty view
    return LayerRows({**whole}, size)


def read_gradients(
    probe: Probe, layers: Sequence[str], images: Images, target: Target, fingerprint: Fingerprint
) -> LayerRows:
    """Compute the gradients of a target by the outputs of hidden layers for all images, float32.

    Each layer needs a pass of its own.

    Args:
        probe: as in `read_activations`.
        layers: as there.
        images: as there.
        target: the scalar function of the output.
        fingerprint: as there.

    Raises:
        InputError: as `read_activations`; or the target does not fit the output, does not depend on a layer,
            or its value or gradient is not finite.
    """
    whole: dict[str, Tensor | StoredRows] = {}
    size = None
    for batch in read_batches(images, probe.batch_size, _pixels, fingerprint, "gradients"):
        linear = _prepared(probe, batch)
        size = common_size([size, (linear.shape[2], linear.shape[3])])
        for layer in layers:
            part = _gradients(probe, layer, linear, target, batch.ids)
            whole[layer] = probe.storage.fill(whole.get(layer), part, batch.rows[0], len(images.ids))
    assert size is not None
    return LayerRows({**whole}, size)


def _pixels(image: Tensor) -> Tensor:
    return image


def _prepared(probe: Probe, batch: Batch[Tensor]) -> Tensor:
    """Decode the images of a batch to scene-linear values, and resize them."""
    linear = decode(batch.stack(check_srgb_image))
    return resize_linear(linear, probe.size)


def _gradients(probe: Probe, layer: str, linear: Tensor, target: Target, ids: Sequence[str]) -> Tensor:
    """Compute the gradients of one batch; halve the batch when memory runs out."""
    name = probe.named.identity.name

    def run(rows: slice) -> tuple[Tensor]:
        image = to_device(probe.named, linear[rows], probe.device)

        def scalar(output: object, _rows: slice) -> Tensor:
            values = target.values(output, len(image))
            check_finite_rows(f"target `{target.name}` of model `{name}`", values[:, None], ids[rows])
            return values

        with model_errors(name, image):
            every, alone = slice(0, len(image)), probe.alone(layer, image)
            found = batch_gradients(probe.network(), layer, image, scalar, every, alone).float()
        check_finite_rows(f"gradient of model `{name}`, layer `{layer}`", found, ids[rows])
        return (found,)

    return run_in_halves(run, len(linear))[0]
