"""Contents for scores of intrinsic images: decompositions, judgements, and regions of one material."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

from candlelight.evaluation.views.named_rows import FRAMES, ChosenRows, Content, NamedRows
from candlelight.evaluation.views.synthetic_judgements import synthetic_comparisons, synthetic_labels
from candlelight.evaluation.views.view_colours import fill_unknown, linear_image, linear_layer, to_linear
from candlelight.evaluation.views.view_types import (
    Comparisons,
    DecomposedImage,
    Explains,
    JudgedImage,
    Origin,
    RegionImage,
    Tensor,
)
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.mixed_edges import mixed_edges
from candlelight.loaders.public.image_formats import to_tensor
from candlelight.loaders.regions import constant_regions, scale_regions
from candlelight.loaders.schema import Metadata

_WITHOUT_SHADING = ("interiorverse", "stanford-orb")
_JUDGED = ("albedo", "shading", "depth", "normal", "object")


# ------------------------------------------------------------------------------------------- decompositions


@dataclass(frozen=True)
class DecompositionOptions:
    """Options of `open_data("decompositions", ...)`.

    Attributes:
        lights: whether to read the captures of MIT Intrinsic Images under ten more lights; others have none.
        image: image of MIT Intrinsic Images: "diffuse", as in the benchmark, or "original" with highlights.
        leave_edges: pixels of frames as near as this to another object are left out of the mask, because
            layers are anti-aliased and mix both surfaces there (`candlelight.loaders.mixed_edges`, which
            finds every such pixel with 2). 0 leaves none out.
        shading: whether data without a true shading are refused. Otherwise their shading has no channels, and
            only scores of reflectance fit.
    """

    lights: bool = False
    image: Literal["diffuse", "original"] = "diffuse"
    leave_edges: int = 0
    shading: bool = True

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        check_choice("image", self.image, ("diffuse", "original"))
        if self.leave_edges < 0:
            raise InputError(f"leave_edges: expected 0 or more pixels, got {self.leave_edges}")


@dataclass(frozen=True, eq=False)
class DecompositionRows(ChosenRows[DecomposedImage]):
    """Chosen rows with the members of `candlelight.evaluation.views.Decompositions`.

    The image of frames is `radiance` times the set's exposure, or the decoded 8-bit `image` of sets without
    `radiance`; their shading is also times the exposure, and their mask holds pixels with an albedo above 0.
    Hypersim's reflectance and shading do not explain the whole image: its reader has the `residual` too.
    """

    explains: Explains


def _decomposed_layers(available: Collection[str], options: DecompositionOptions) -> tuple[str, ...]:
    return (linear_layer(available), "albedo", "shading", *(("object",) if options.leave_edges else ()))


def _has_catcher(metadata: Metadata) -> bool:
    """Recognise frames with a shadow catcher: of all traced frames, only these have no `identity_error`."""
    traced = metadata.renderer is not None and metadata.renderer.blender is not None
    return traced and metadata.checks.identity_error is None


def _decomposed_frame(named: NamedRows, options: DecompositionOptions, row: int) -> DecomposedImage:
    exposure, sample = named.reader.set_info.exposure, named.reader[row]
    albedo, shading = to_linear(sample["albedo"]), to_linear(sample["shading"])
    known = albedo > 0
    mask = known.any(0)
    whole = bool((known == mask).all())
    if options.leave_edges:
        mask &= mask.new_tensor(~mixed_edges(sample["object"].numpy(), options.leave_edges))
    return DecomposedImage(
        linear_image(sample, exposure),
        albedo,
        (shading if whole else fill_unknown(shading, known)) * exposure,
        mask,
        shading_known=None if whole else known,
    )


def _decomposed_public(named: NamedRows, options: DecompositionOptions, row: int) -> DecomposedImage:
    item = named.reader[row]
    reflectance = to_linear(item["reflectance"])
    key = "diffuse" if named.identity.layout == "mit" and options.image == "diffuse" else "image"
    return DecomposedImage(
        image=to_linear(item[key]),
        reflectance=reflectance,
        shading=item.get("shading", reflectance[:0]),
        mask=item["mask"],
        lights=item.get("lights"),
    )


def _decompositions(
    named: NamedRows, read: Callable[[int], DecomposedImage], options: DecompositionOptions
) -> DecompositionRows:
    if options.shading and named.identity.layout in _WITHOUT_SHADING:
        raise InputError(
            f"{named.identity.name} has no true shading; choose a score of reflectance alone, such as "
            f"`candlelight evaluate protocols {named.identity.layout}:PATH`, or in Python open the data with "
            "`shading=False`"
        )
    edges = options.leave_edges
    identity = replace(
        named.identity,
        image=None if options.image == "diffuse" else options.image,
        mask=f"without {edges} pixels at edges of objects" if edges else None,
    )
    catcher = named.identity.layout == FRAMES and _has_catcher(named.reader.metadata(named.numbers[0]))
    return DecompositionRows(replace(named, identity=identity), read, "objects" if catcher else "image")


DECOMPOSITION_CONTENT = Content(
    "decompositions",
    ("mit", "arap", "hypersim", "sintel", "interiorverse", "stanford-orb", "midintrinsics"),
    _decomposed_layers,
    options=DecompositionOptions,
    only={"image": ("mit",), "leave_edges": (FRAMES,)},
    arguments=lambda layout, options: {"lights": options.lights} if layout == "mit" else {},
    frame=_decomposed_frame,
    public=_decomposed_public,
    view=_decompositions,
)


# ----------------------------------------------------------------------------------------------- judgements


@dataclass(frozen=True, eq=False)
class JudgementRows(ChosenRows[JudgedImage]):
    """Chosen rows with the members of `candlelight.evaluation.views.Judgements`.

    Photographs have the judgements of people: comparisons (IIW) or labels (SAW). Frames have both, made of
    their ground truth by `synthetic_comparisons` and `synthetic_labels`; their image is that of
    `DecompositionRows`.
    """

    origin: Origin


def _judged_frame(named: NamedRows, options: Any, row: int) -> JudgedImage:
    import torch

    sample = named.reader[row]
    albedo, shading, depth, normal, objects = (sample[name].numpy() for name in _JUDGED)
    points, darker, weight = synthetic_comparisons(sample["id"], albedo, objects)
    labels = synthetic_labels(albedo, shading, depth, normal, objects)
    made = Comparisons(torch.from_numpy(points), torch.from_numpy(darker), torch.from_numpy(weight))
    image = linear_image(sample, named.reader.set_info.exposure)
    return JudgedImage(image, made, torch.from_numpy(labels))


def _judged_public(named: NamedRows, options: Any, row: int) -> JudgedImage:
    item = named.reader[row]
    image = to_linear(item["image"])
    if "labels" in item:
        return JudgedImage(image, None, item["labels"])
    return JudgedImage(image, Comparisons(item["points"], item["darker"], item["score"]), None)


JUDGEMENTS = Content(
    "judgements",
    ("iiw", "saw"),
    lambda available, options: (linear_layer(available), *_JUDGED),
    frame=_judged_frame,
    public=_judged_public,
    view=lambda named, read, options: JudgementRows(
        named, read, "synthetic" if named.identity.layout == FRAMES else "human"
    ),
)


# -------------------------------------------------------------------------------------------------- regions


@dataclass(frozen=True)
class RegionOptions:
    """Options of `open_data("regions", ...)`.

    Attributes:
        longest: largest longer side in pixels to which photographs are scaled down: images in linear light,
            regions by the nearest pixel. None keeps their sizes, which are 20 million pixels in MAW. Frames
            keep their size always.
    """

    longest: int | None = None

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        if self.longest is not None and self.longest < 1:
            raise InputError(f"longest: expected at least 1 pixel, got {self.longest}")


@dataclass(frozen=True, eq=False)
class RegionRows(ChosenRows[RegionImage]):
    """Chosen rows with the members of `candlelight.evaluation.views.Regions`.

    The regions of MAW have measured colours. The regions of Multi-Illumination Images are the scene's classes
    of materials, without colours; class 0 counts as no material. The regions of frames are those of
    `candlelight.loaders.regions.constant_regions`, pixels of one object with one true albedo, which is their
    colour. The groups are scenes (MAW's folders of a scene), and units of frames: rows of a unit that differ
    in light alone have the same regions.
    """

    synthetic: bool


def _regions_of_frame(named: NamedRows, options: RegionOptions, row: int) -> RegionImage:
    sample = named.reader[row]
    albedo = to_linear(sample["albedo"])
    found = constant_regions(sample["object"].numpy(), albedo.permute(1, 2, 0).numpy())
    image = linear_image(sample, named.reader.set_info.exposure)
    return RegionImage(image, to_tensor(found.regions), to_tensor(found.colours), (albedo > 0).any(0))


def _regions_of_photograph(named: NamedRows, options: RegionOptions, row: int) -> RegionImage:
    item = named.reader[row]
    regions = item.get("regions", item.get("materials"))
    if regions is None:
        raise InputError(
            "expected MultiIllumination opened with materials=True, got a reader without materials"
        )
    image = to_linear(item["image"])
    if options.longest is not None and max(regions.shape) > options.longest:
        image, regions = _scaled(image, regions, options.longest)
    return RegionImage(image, regions, item.get("colours"))


def _scaled(image: Tensor, regions: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    from torch.nn.functional import interpolate

    height, width = regions.shape
    share = longest / max(height, width)
    size = max(1, round(height * share)), max(1, round(width * share))
    smaller = interpolate(image[None], size, mode="bilinear", antialias=True)[0]
    return smaller, to_tensor(scale_regions(regions.numpy(), size))


REGION_CONTENT = Content(
    "regions",
    ("maw", "multi-illumination"),
    lambda available, options: (linear_layer(available), "albedo", "object"),
    options=RegionOptions,
    arguments=lambda layout, options: {"materials": True} if layout == "multi-illumination" else {},
    frame=_regions_of_frame,
    public=_regions_of_photograph,
    view=lambda named, read, options: RegionRows(named, read, named.identity.layout == FRAMES),
)
