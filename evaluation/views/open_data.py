"""Open data as one of its contents: the one function that opens PATH, LAYOUT:PATH, hf:NAME or a reader."""

from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from candlelight.evaluation.views.concept_sets import CONCEPTS
from candlelight.evaluation.views.counterfactual_frames import COUNTERFACTUALS
from candlelight.evaluation.views.data_layouts import (
    HUB,
    LAYOUTS,
    DataText,
    hub_folder,
    layout_of,
    name_public,
    open_public,
    parse_data,
    split_text,
)
from candlelight.evaluation.views.image_contents import FACTORS, IMAGES, PARTS, RATED_PAIRS
from candlelight.evaluation.views.intrinsic_contents import DECOMPOSITION_CONTENT, JUDGEMENTS, REGION_CONTENT
from candlelight.evaluation.views.layer_contents import LAYER_CONTENT
from candlelight.evaluation.views.moved_frames import MOVED
from candlelight.evaluation.views.named_rows import (
    FRAMES,
    Content,
    NamedRows,
    Request,
    RowChoice,
    name_frames,
    open_frame_rows,
)
from candlelight.evaluation.views.paint_light_grids import GRIDS
from candlelight.evaluation.views.view_types import DataIdentity
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument, did_you_mean

_OfFrames = Literal["moved", "counterfactuals", "grids"]
_OfImages = Literal["images", "factors", "parts", "pairs", "concepts"]
ContentKind = Literal["decompositions", "judgements", "regions", "layers", _OfImages, _OfFrames]
CONTENTS: dict[ContentKind, Content] = {
    "decompositions": DECOMPOSITION_CONTENT,
    "layers": LAYER_CONTENT,
    "concepts": CONCEPTS,
    "parts": PARTS,
    "factors": FACTORS,
    "judgements": JUDGEMENTS,
    "regions": REGION_CONTENT,
    "pairs": RATED_PAIRS,
    "images": IMAGES,
    "moved": MOVED,
    "counterfactuals": COUNTERFACTUALS,
    "grids": GRIDS,
}


def open_data(
    kind: ContentKind,
    data: Any,
    *,
    set_name: str | None = None,
    split: str | None = None,
    rows: RowChoice | None = None,
    limit: int | None = None,
    **options: Any,
) -> Any:
    """Open data as one of their contents; rows are chosen and named before an image is read.

    ===================  ================================  ================================================
    kind                 view, with items                  data beside frames; options
    ===================  ================================  ================================================
    ``decompositions``   `Decompositions`,                 mit, arap, hypersim, sintel, interiorverse,
                         `DecomposedImage`                 stanford-orb, midintrinsics;
                                                           `DecompositionOptions`: ``lights``, ``image``,
                                                           ``leave_edges``, ``shading``
    ``layers``           `OneLayerRows`, `LayerImage`      as ``decompositions``; `LayerOptions`: ``layer``,
                                                           ``leave_edges``, ``by``
    ``concepts``         `ConceptSets`, images             mit, arap, multi-illumination, photometric-stereo
    ``parts``            `Parts`, `PartImage`              cub70, celebamask; `PartOptions`: ``by``
    ``factors``          `Factors`, images                 cub70, celebamask, dsprites, mpi3d, shapes3d,
                                                           candle, tid2013; `FactorOptions`: ``sizes``
    ``judgements``       `Judgements`, `JudgedImage`       iiw, saw
    ``regions``          `Regions`, `RegionImage`          maw, multi-illumination; `RegionOptions`:
                                                           ``longest``
    ``pairs``            `RatedPairs`, `RatedPair`         tid2013 alone, no frames
    ``images``           `Images`, images                  all, pictures, tables of the Hub; `ImageOptions`:
                                                           ``size``, ``groups``
    ``moved``            `MovedRows`, `MovedImages`        none; `MovedOptions`: ``transforms``
    ``counterfactuals``  `CounterfactualRows`,             none
                         `CounterfactualImages`
    ``grids``            `PaintLightGrids`,                none; `DecompositionOptions`
                         `PaintLightGrid`
    ===================  ================================  ================================================

    Images are float32 [3, height, width], sRGB-encoded in [0, 1]; the fields of other items are described
    with their classes, and the options with theirs. The groups of rows are not independent: units of frames,
    scenes or objects of public data.

    ``moved`` and ``counterfactuals`` read all sets of frames that have the content where no set is named;
    ``limit`` counts the scenes of each transform, and the originals of each set. ``rows`` and ``limit`` of
    ``grids`` count grids.

    Args:
        kind: the content.
        data: PATH, LAYOUT:PATH or hf:NAME, see `parse_data`; a reader of frames, or one of
            `candlelight.loaders.public`. A view, which is any object with the members of `View`, is returned
            as it is.
        set_name: image set of frames, variant of MPI3D, or configuration of a table of the Hub; may be left
            out where there is only one.
        split: may be left out where there is only one.
        rows: row numbers, or text for `parse_rows`; None for all. A row of MIT Intrinsic Images is an object
            or, in ``concepts``, one of its ten lights.
        limit: largest number of rows, from 1; None for all.
        options: the content's own options.

    Returns:
        The view.

    Raises:
        InputError: the data are missing or lack the content, a layer or an option; the set, split or row
            does not exist; there are several sets or splits, and none is named; or an option is unknown or
            out of range.

    Example:
        >>> open_data("decompositions", "dsprites:grid")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: dsprites:grid: `dsprites` has no decompositions; expected \
frames or one of the layouts mit, arap, hypersim, sintel, interiorverse, stanford-orb, midintrinsics
        >>> open_data("decompositions", "frames", ligths=True)
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: open_data: `decompositions` has no option `ligths`; it has \
lights, image, leave_edges, shading; did you mean `lights`?
    """
    check_choice("kind", kind, ContentKind)
    content = CONTENTS[kind]
    chosen = _checked_options(kind, content, options)
    request = Request(data, set_name, split, rows, limit)
    if is_view(data):
        if options or any(choice is not None for choice in (set_name, split, rows, limit)):
            raise InputError(
                f"open_data: expected no set, split, rows, limit or option with {request.name}, which is an "
                "open view; give them when it is opened"
            )
        return data
    text = parse_data(data) if isinstance(data, str | Path) else None
    layout = _check_layout(request, text, content)
    if content.open is not None and (view := content.open(request, text, chosen)) is not None:
        return view
    _check_only(request, layout, content, chosen)
    whole = request if content.choose is None else replace(request, rows=None, limit=None)
    named = _name_rows(whole, text, layout, content, chosen)
    read: Any = (layout == FRAMES and content.frame) or content.public
    view = content.view(named, partial(read, named, chosen), chosen)
    return view if content.choose is None else content.choose(view, request)


def open_secondary(kind: ContentKind, data: Any, text: str, **options: Any) -> Any:
    """Open a second data set, such as negatives: a set of DATA, a path, LAYOUT:PATH or hf:NAME.

    Args:
        kind: the content, as for `open_data`.
        data: DATA; None if there is none.
        text: SET, PATH[:SET[:SPLIT]], LAYOUT:PATH[:SPLIT] or hf:NAME. A set of DATA takes precedence over a
            path of the same name; ./NAME means the path.
        options: further arguments of `open_data`.

    Raises:
        InputError: the data cannot be opened.

    Example:
        >>> open_secondary("pairs", None, "iiw:photographs:test")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: iiw:photographs:test: `iiw` has no rated pairs; expected one \
of the layouts tid2013
    """
    if data is not None and ":" not in text and "/" not in text:
        try:
            return open_data(kind, data, set_name=text, **options)
        except InputError:
            if not Path(text).exists():
                raise
    place, choice = split_text(text)
    return open_data(kind, place, **{**choice, **options})


def is_view(data: object) -> bool:
    """Recognise a view by the members that readers lack; to look for `known_ids` may list all rows."""
    return all(hasattr(data, name) for name in ("identity", "ids", "groups"))


def _checked_options(kind: str, content: Content, options: dict[str, Any]) -> Any:
    known = [one.name for one in fields(content.options)]
    for name in options:
        if name not in known:
            raise InputError(
                f"open_data: `{kind}` has no option `{name}`; it has {', '.join(known) or 'none'}"
                f"{did_you_mean(name, known)}"
            )
    return content.options(**options)


def _check_layout(request: Request, text: DataText | None, content: Content) -> str:
    """Name the layout of the data, "frames" for all frames, and refuse data without the content."""
    if text is not None:
        layout: str | None = FRAMES if text.layout == HUB else text.layout
    elif request.set_name is not None or request.split is not None:
        raise InputError(
            f"expected no set and no split with a reader, which is already open, got set "
            f"{request.set_name!r} and split {request.split!r}"
        )
    else:
        layout = layout_of(request.data) or (FRAMES if hasattr(request.data, "set_info") else None)
    if layout is None:
        raise InputError(
            "expected PATH, LAYOUT:PATH, hf:NAME, a view, a reader of frames or one of "
            f"candlelight.loaders.public, got {request.name}"
        )
    if layout not in content.layouts and (layout != FRAMES or content.layers is None):
        having = [FRAMES] if content.layers else []
        having += [f"one of the layouts {', '.join(content.layouts)}"] if content.layouts else []
        raise InputError(f"{request.name}: `{layout}` has no {content.noun}; expected {' or '.join(having)}")
    return layout


def _check_only(request: Request, layout: str, content: Content, chosen: Any) -> None:
    """Refuse an option that other layouts have."""
    for name, layouts in content.only.items():
        if layout not in layouts and getattr(chosen, name) != getattr(content.options, name):
            raise InputError(
                f"{request.name}: `{layout}` takes no {argument(name)}, which is for "
                f"{', '.join(layouts)} alone; leave it out"
            )


def _name_rows(
    request: Request, text: DataText | None, layout: str, content: Content, chosen: Any
) -> NamedRows:
    if layout != FRAMES:
        reader, identity = request.data, DataIdentity(LAYOUTS[layout].name, layout)
        if text is not None:
            arguments = content.arguments(layout, chosen)
            reader, identity = open_public(layout, Path(text.place), request, **arguments)
        return name_public(content.reader(layout, reader), request, identity)
    layers_of: Any = content.layers and partial(content.layers, options=chosen)
    if text is None:
        return name_frames(request.data, request, layers_of)
    place = text.place if text.layout == FRAMES else hub_folder(text.place)
    return open_frame_rows(place, request, layers_of)
