"""Open images with their true reflectance and shading."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from candlelight.evaluation.views.chosen_rows import ChosenRows, Request, RowChoice
from candlelight.evaluation.views.data_source import FRAMES, Content, open_rows
from candlelight.evaluation.views.view_colours import fill_unknown, linear_image, linear_layer, to_linear
from candlelight.evaluation.views.view_items import DecomposedImage
from candlelight.evaluation.views.view_protocols import Explains
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError
from candlelight.loaders.mixed_edges import mixed_edges
from candlelight.loaders.samples import Frames
from candlelight.loaders.schema import Metadata

_TRUTH = ("albedo", "shading")
MITImage = Literal["diffuse", "original"]


@dataclass(frozen=True, eq=False)
class DecompositionRows(ChosenRows[DecomposedImage]):
    """Chosen rows with the members of `candlelight.evaluation.views.Decompositions`."""

    explains: Explains


def open_decompositions(
    data: Any,
    *,
    set_name: str | None = None,
    split: str | None = None,
    rows: RowChoice | None = None,
    limit: int | None = None,
    lights: bool = False,
    image: MITImage = "diffuse",
    leave_edges: int = 0,
) -> DecompositionRows:
    """Open images with their true reflectance and shading.

    The image of frames is `radiance` times the set's exposure, or the decoded 8-bit `image` of sets without
    `radiance`; their shading is also times the exposure, their mask holds pixels with an albedo above 0, and
    their groups are units. The image of MIT Intrinsic Images is `diffuse`, as in its benchmark. The groups of
    ARAP and Hypersim are scenes. Hypersim's reflectance and shading do not explain the whole image: its
    reader has the `residual` too.

    Args:
        data: PATH, LAYOUT:PATH (mit, arap, hypersim) or hf:NAME, see `parse_data`; any reader of
            frames, or one of `candlelight.loaders.public`.
        set_name: image set of frames; may be left out where there is only one.
        split: may be left out where there is only one.
        rows: row numbers, or text for `parse_rows`; None for all.
        limit: largest number of rows; None for all.
        lights: whether to read MIT's captures under ten more lights; other data have none.
        image: image of MIT Intrinsic Images: "diffuse", as in the benchmark, or "original" with highlights.
        leave_edges: pixels of frames as near as this to another object are left out of the mask, because
            layers are anti-aliased and mix both surfaces there (`candlelight.loaders.mixed_edges`, which
            finds every such pixel with 2). 0 leaves none out.

    Returns:
        The view: `candlelight.evaluation.views.Decompositions`.

    Raises:
        InputError: the data are missing or have no decompositions; the set, split or row does not exist;
            there are several sets or splits, and none is named; or ``leave_edges`` is negative, or given with
            data that are not frames.

    Example:
        >>> open_decompositions("dsprites:grid")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: dsprites:grid: `dsprites` has no decompositions; expected \
frames or one of the layouts mit, arap, hypersim
    """
    check_choice("image", image, MITImage)
    if leave_edges < 0:
        raise InputError(f"leave_edges: expected 0 or more pixels, got {leave_edges}")
    request = Request(data, set_name, split, rows, limit)
    layers_of = partial(_layers, edges=leave_edges > 0)
    content = Content("decompositions", ("mit", "arap", "hypersim"), layers_of, {"mit": {"lights": lights}})
    named = open_rows(request, content)
    reader = named.reader
    if named.identity.layout != FRAMES:
        if leave_edges:
            raise InputError(
                f"{request.name}: `{named.identity.layout}` has no objects; leave_edges must be 0"
            )
        key = "diffuse" if named.identity.layout == "mit" and image == "diffuse" else "image"
        if image == "original":
            if named.identity.layout != "mit":
                raise InputError(
                    f"{request.name}: only MIT Intrinsic Images have an `original`; leave it out"
                )
            named = replace(named, identity=replace(named.identity, image=image))
        return DecompositionRows(named, partial(_read_public, reader, key), "image")
    if image == "original":
        raise InputError(f"{request.name}: only MIT Intrinsic Images have an `original`; leave it out")
    catcher = _has_catcher(reader.metadata(named.numbers[0]))
    if leave_edges:
        mask = f"without {leave_edges} pixels at edges of objects"
        named = replace(named, identity=replace(named.identity, mask=mask))
    read = partial(_read_frame, reader, leave_edges)
    return DecompositionRows(named, read, "objects" if catcher else "image")


def _layers(available: Collection[str], edges: bool) -> tuple[str, ...]:
    return (linear_layer(available), *_TRUTH, *(("object",) if edges else ()))


def _has_catcher(metadata: Metadata) -> bool:
    """Recognise frames with a shadow catcher: of all traced frames, only these have no `identity_error`."""
    traced = metadata.renderer is not None and metadata.renderer.blender is not None
    return traced and metadata.checks.identity_error is None


def _read_frame(frames: Frames, leave_edges: int, row: int) -> DecomposedImage:
    exposure, sample = frames.set_info.exposure, frames[row]
    albedo, shading = (to_linear(sample[name]) for name in _TRUTH)
    known = albedo > 0
    mask = known.any(0)
    whole = bool((known == mask).all())
    if leave_edges:
        mask &= mask.new_tensor(~mixed_edges(sample["object"].numpy(), leave_edges))
    return DecomposedImage(
        linear_image(sample, exposure),
        albedo,
        (shading if whole else fill_unknown(shading, known)) * exposure,
        mask,
        shading_known=None if whole else known,
    )


def _read_public(data: Any, key: str, row: int) -> DecomposedImage:
    item = data[row]
    return DecomposedImage(
        image=to_linear(item[key]),
        reflectance=to_linear(item["reflectance"]),
        shading=item["shading"],
        mask=item["mask"],
        lights=item.get("lights"),
    )
