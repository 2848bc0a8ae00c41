"""Images of an object with its parts taken away, and the outputs of a classifier for them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.coverage.filter_methods import check_logits
from candlelight.evaluation.coverage.part_removal import IRRELEVANT, Game
from candlelight.evaluation.coverage.thresholds import resize_mask
from candlelight.evaluation.coverage.usual_scores import baseline_images
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.named_models import run_model
from candlelight.evaluation.run.steps import Step
from candlelight.evaluation.views import BACKGROUND_REGION, CounterfactualImages
from candlelight.evaluation.views.counterfactual_frames import ABSENT_MATERIAL, RegionChange
from candlelight.evaluation.views.image_tensors import decode, encode, resize_images
from candlelight.loaders.errors import InputError

Linear = Float[Tensor, "_ 3 height width"]


@dataclass(frozen=True, eq=False)
class RemovalImages:
    """An image and its counterfactuals, scene-linear, by what they change.

    Attributes:
        parts: names of the shown parts that can be taken away.
        slots: factor that takes each part away, if its value is "absent"; else the name of the part.
        masks: pixels of each part, then of each other object that can be taken away.
        whole: pixels of all parts, also of the ones that are never taken away.
        present: the parts that are there, in each rendered set; all of them in the first.
        sets: the images of the sets; the first one is the original.
        cleared: the original without each other object.
        recoloured: the original with one part in another colour, and ``painted``, the number of that part.
        nearby: the original under small changes that leave every region as it is.
        scenes: the original before other backgrounds.
    """

    parts: tuple[str, ...]
    slots: tuple[str, ...]
    masks: Bool[Tensor, "regions height width"]
    whole: Bool[Tensor, "height width"]
    present: Bool[Tensor, "sets parts"]
    sets: Linear
    cleared: Linear
    recoloured: Linear
    painted: tuple[int, ...]
    nearby: Linear
    scenes: Linear


def sort_changes(
    item: CounterfactualImages, nearby: str, size: tuple[int, int] | None = None, widen: int = 0
) -> RemovalImages:
    """Sort the counterfactuals of an image by what they change.

    Args:
        item: the image.
        nearby: factor whose interventions are small.
        size: height and width to which images are resized in linear light.
        widen: pixels by which masks are widened.

    Raises:
        InputError: no part that has pixels is taken away alone, or a part only together with others.
    """
    named = {name: resize_mask(mask, size) for name, mask in item.masks.items()}
    shown = {name for name, mask in named.items() if bool(mask.any())} - {BACKGROUND_REGION}
    removed = [one for one in item.changes if {*one.regions.values()} == {"removed"}]
    sets = {frozenset(one.regions): one for one in reversed(removed) if one.regions.keys() <= shown}
    parts = tuple(sorted({part for one in sets for part in one}))
    alone = {part: sets.get(frozenset([part])) for part in parts}
    if not parts or (lacking := [part for part, one in alone.items() if one is None]):
        what = f"`{lacking[0]}` only together with others" if parts else "none"
        raise InputError(
            f"expected counterfactuals in which each part is taken away alone, got {what}; render the recipe "
            "parts-removed"
        )
    order = sorted(sets, key=lambda one: (len(one), sorted(one)))
    present = [[True] * len(parts), *([part not in one for part in parts] for one in order)]
    objects = [one for one in removed if [*one.regions] == [BACKGROUND_REGION] and bool(one.objects.any())]
    objects = [one for one in objects if len(one.intervention) == 1]
    painted = [
        one
        for one in item.changes
        if [*one.regions.values()] == ["recoloured"] and {*one.regions} <= {*parts}
    ]
    others = [one for one in item.changes if {*one.regions.values()} == {"scene"}]

    def linear(some: Sequence[Tensor]) -> Linear:
        stacked = torch.stack([*some]) if some else item.image.new_zeros(0, *item.image.shape)
        return resize_images(decode(stacked), size)

    def images(some: Sequence[RegionChange]) -> Linear:
        return linear([one.image for one in some])

    masks = [*(named[part] for part in parts), *(resize_mask(one.objects, size) for one in objects)]
    return RemovalImages(
        parts,
        tuple(_slot(part, alone[part]) for part in parts),
        _widened(torch.stack(masks), widen),
        torch.stack([named[name] for name in shown]).any(0),
        torch.tensor(present, device=item.image.device),
        linear([item.image, *(sets[one].image for one in order)]),
        images(objects),
        images(painted),
        tuple(parts.index(next(iter(one.regions))) for one in painted),
        images([one for one in others if {*one.intervention} == {nearby}]),
        images([one for one in others if {*one.intervention} != {nearby}]),
    )


def _slot(part: str, change: RegionChange | None) -> str:
    names = (
        [name for name, value in change.intervention.items() if value == ABSENT_MATERIAL] if change else []
    )
    return names[0] if len(names) == 1 else part


def _widened(
    masks: Bool[Tensor, "regions height width"], pixels: int
) -> Bool[Tensor, "regions height width"]:
    if not pixels:
        return masks
    return functional.max_pool2d(masks.float(), 2 * pixels + 1, 1, pixels) > 0


def erased_parts(images: RemovalImages, fill: Linear) -> Linear:
    """Fill the pixels of absent parts, in place of rendering what is behind them.

    Args:
        images: the original, and the sets of parts.
        fill: one image that is shown there, or an image for each set.
    """
    masks = images.masks[: len(images.parts)]
    gone = (~images.present[:, :, None, None] & masks).any(1)
    return torch.where(gone[:, None], fill, images.sets[:1])


@dataclass(frozen=True, eq=False)
class TrueEffects:
    """Outputs of a classifier for an image and its counterfactuals, in float64, on the CPU.

    Attributes:
        rendered: with sets of parts, as rendered.
        gray: with the pixels of absent parts gray.
        blurred: with the pixels of absent parts blurred.
        within: with the rendered pixels where absent parts were, and all other pixels of the original, which
            keep the shadow and the light of the part.
        cleared: without each other object.
        recoloured: with one part recoloured.
        nearby: under small changes.
        scenes: before other backgrounds.
    """

    rendered: Game
    gray: Game
    blurred: Game
    within: Game
    cleared: Float64[Tensor, "objects classes"]
    recoloured: Float64[Tensor, "recoloured classes"]
    nearby: Float64[Tensor, "nearby classes"]
    scenes: Float64[Tensor, "scenes classes"]

    @property
    def finite(self) -> bool:
        """Whether all logits are finite."""
        games = self.rendered, self.gray, self.blurred, self.within
        others = self.cleared, self.recoloured, self.nearby, self.scenes
        return all(bool(one.isfinite().all()) for one in (*(game.logits for game in games), *others))

    def object_drops(self, target: int) -> Float64[Tensor, " objects"]:
        """Compute by how much a logit falls when each other object is taken away."""
        return self.rendered.logits[0, target] - self.cleared[:, target]

    def irrelevant(self, target: int) -> Bool[Tensor, " regions"]:
        """Tell which parts and other objects change a logit by less than 5 % of its size when taken away."""
        drops = torch.cat([self.rendered.drops()[:, target], self.object_drops(target)])
        return drops.abs() < IRRELEVANT * self.rendered.logits[0, target].abs()

    def recolouring(self, painted: Sequence[int], target: int) -> Float64[Tensor, " parts"]:
        """Compute by how much a logit falls when a part has another colour: the mean over colours, or nan."""
        drops = self.rendered.logits[0, target] - self.recoloured[:, target]
        of = torch.tensor(painted, dtype=torch.long, device=drops.device)
        return torch.stack([drops[of == part].mean() for part in range(self.rendered.parts)])


def classifier_logits(classifier: NamedModel, linear: Linear) -> Float64[Tensor, "_ classes"]:
    """Run a classifier on scene-linear images.

    Raises:
        InputError: it gives no logits.
    """

    def logits(output: object, count: int, _: str) -> tuple[Tensor]:
        return (check_logits(output, count).double(),)

    return run_model(classifier, linear, logits)[0]


def measure_truth(
    classifier: NamedModel,
    images: RemovalImages,
    batch_size: int,
    keep: Callable[[Callable[[], Step]], Step] = lambda compute: compute(),
) -> TrueEffects:
    """Run a classifier on an image and its counterfactuals.

    Args:
        classifier: maps images to logits.
        images: the images.
        batch_size: images in one call.
        keep: returns the logits that its argument computes, or earlier ones.

    Raises:
        InputError: the classifier gives no logits, or the batch size is below 1.
    """
    if batch_size < 1:
        raise InputError(f"`batch_size` must be at least 1, got {batch_size}")

    def compute() -> Step:
        image = encode(images.sets[:1])
        shown = {
            "rendered": images.sets,
            "gray": erased_parts(images, decode(baseline_images(image, "gray"))),
            "blurred": erased_parts(images, decode(baseline_images(image, "blur"))),
            "within": erased_parts(images, images.sets),
            "cleared": images.cleared,
            "recoloured": images.recoloured,
            "nearby": images.nearby,
            "scenes": images.scenes,
        }
        batches = torch.split(torch.cat([*shown.values()]), batch_size)
        found = torch.cat([classifier_logits(classifier, some) for some in batches])
        return dict(zip(shown, torch.split(found, [len(one) for one in shown.values()]), strict=True))

    found = [one.cpu() for one in keep(compute).values()]  # a few numbers, which many sets look up
    rendered, gray, blurred, within = (Game(images.present.cpu(), one) for one in found[:4])
    return TrueEffects(rendered, gray, blurred, within, *found[4:])
