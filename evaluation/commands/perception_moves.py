"""Open what ``candlelight evaluate perception`` compares: images with transforms, or frames that moved."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from candlelight.evaluation.commands.perception_options import TRANSFORM_KINDS
from candlelight.loaders.errors import InputError

if TYPE_CHECKING:
    from candlelight.evaluation.perception import MoveSource

_COMPARED_AS_RENDERED = "the frames are compared as they were rendered; leave it out"
_ONLY_FOR_PICTURES = {
    "size": _COMPARED_AS_RENDERED,
    "canvas": "the frames show the scene beyond their borders; leave it out",
    "pixels_per_degree": "the frames are seen from the place of their camera, whose pixels per degree count; "
    "leave it out",
    "rows": "rows are images, but scenes are compared; take --limit",
}


class OpenedMoves(NamedTuple):
    """Images or frames to compare.

    Attributes:
        sources: by kind of moves.
        settings: facts that the numbers depend on.
        notes: to show beside the scores.
    """

    sources: "dict[str, MoveSource]"
    settings: dict[str, Any]
    notes: tuple[str, ...]


def open_moves(
    data: str,
    moves: str | None,
    transforms: Sequence[str],
    hues: int,
    kernel: Any,
    notebook_slip: bool,
    given: Mapping[str, Any],
) -> OpenedMoves:
    """Open the images, or the frames that moved.

    Args:
        data: images or frames.
        moves: of the option --moves.
        transforms: kinds; empty for all but parallax.
        hues: number of hues.
        kernel: of transforms on the image plane; None for the default.
        notebook_slip: of the option.
        given: further options, which choose rows, or are for images alone; None if they were left out.

    Raises:
        InputError: the data cannot be opened, or an option is for other data.
    """
    from candlelight.evaluation.views import has_moves

    kinds = tuple(transforms) or TRANSFORM_KINDS
    is_moved = has_moves(data, given["set_name"])
    opened = (_open_frames if is_moved else _open_images)(data, moves, kinds, hues, kernel, dict(given))
    for option, value in (("--notebook-slip", notebook_slip), ("--kernel", kernel)):
        if value and "image plane" not in opened.sources:
            raise InputError(
                f"{option}: only for transforms on the image plane; take --moves both or image-plane"
            )
    return opened


def _open_images(
    data: str, moves: str | None, kinds: Sequence[str], hues: int, kernel: Any, given: dict[str, Any]
) -> OpenedMoves:
    from candlelight.evaluation.perception import PAPER_PIXELS_PER_DEGREE, MoveSource, paper_families
    from candlelight.evaluation.views import open_data

    if moves in ("physical", "both"):
        raise InputError(f"--moves {moves}: {data} has no frames that moved; render the recipe invariance")
    if "parallax" in kinds:
        raise InputError(f"--transform parallax: needs frames in which the camera moved, {data} has none")
    stated, canvas, kernel = given.pop("pixels_per_degree"), given.pop("canvas"), kernel or "linear"
    per_degree = PAPER_PIXELS_PER_DEGREE if stated is None else stated
    base: Any = "mnist" if canvas == "mnist" else "photographs"
    families = paper_families(base, pixels_per_degree=per_degree, hues=hues, kernel=kernel)
    chosen = tuple(one for one in families if one.name.startswith(tuple(kinds)))
    settings = {"pixels_per_degree": per_degree, "canvas": canvas or "mirror", "kernel": kernel}
    origin = "assumed, as the paper does for ImageNet" if stated is None else "as stated"
    note = f"{per_degree:g} pixels per degree of visual angle, {origin}"
    return OpenedMoves(
        {"image plane": MoveSource(open_data("images", data, **given), chosen)}, settings, (note,)
    )


def _open_frames(
    data: str, moves: str | None, kinds: Sequence[str], hues: int, kernel: Any, given: dict[str, Any]
) -> OpenedMoves:
    from candlelight.evaluation.perception import MoveSource, image_plane_family
    from candlelight.evaluation.views import open_data

    for name, reason in _ONLY_FOR_PICTURES.items():
        if given.pop(name) is not None:
            flag = name.replace("_", "-")
            raise InputError(f"--{flag}: not for frames in which camera or light moved: {reason}")
    frames = open_data("moved", data, transforms=list(_transform_names(kinds, hues)), **given)
    kernel = kernel or "cubic"
    sources = {
        "physical": MoveSource(frames),
        "image plane": MoveSource(frames, partial(image_plane_family, kernel=kernel)),
    }
    wanted = {"both": list(sources), "image-plane": ["image plane"]}.get(moves or "", ["physical"])
    settings: dict[str, Any] = {"kernel": kernel} if "image plane" in wanted else {}
    notes = []
    if frames.pixels_per_degree:
        ends = list(dict.fromkeys((frames.pixels_per_degree[0], frames.pixels_per_degree[-1])))
        settings["pixels_per_degree"] = ends[0] if len(ends) == 1 else ends
        shown = " to ".join(f"{one:.4g}" for one in ends)
        notes.append(f"{shown} pixels per degree of visual angle, of the camera of the frames")
    if frames.incomplete:
        notes.append(f"scenes left out because a frame of a transform is missing: {len(frames.incomplete)}")
    return OpenedMoves({name: sources[name] for name in wanted}, settings, tuple(notes))


def _transform_names(kinds: Sequence[str], hues: int) -> Iterator[str]:
    """Name the transforms of frames: those of each axis and hue."""
    from candlelight.evaluation.perception import spread_hues

    yield from (kind for kind in kinds if kind in ("rotation", "scale"))
    if "translation" in kinds:
        yield from ("translation x", "translation y")
    if "parallax" in kinds:
        yield "parallax x"
    if "illuminant" in kinds:
        yield from (f"illuminant {hue}" for hue in spread_hues(hues))
