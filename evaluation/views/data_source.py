"""Parse and open text that names data: PATH, LAYOUT:PATH or hf:NAME."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from candlelight.evaluation.views.chosen_rows import NamedRows, Request
from candlelight.evaluation.views.frame_rows import LayersOf, name_frames, open_frame_rows
from candlelight.evaluation.views.public_rows import LAYOUTS, layout_of, name_public, open_public
from candlelight.loaders.errors import InputError, did_you_mean
from candlelight.loaders.hub.hub_cache import download_snapshot

FRAMES, HUGGING_FACE = "frames", "hf"
_PREFIXES = (*LAYOUTS, HUGGING_FACE)


@dataclass(frozen=True)
class DataText:
    """Parsed text that names data: layout "frames", "hf" or a public layout, and a path or a name."""

    layout: str
    place: str


@dataclass(frozen=True)
class Content:
    """Content that a view needs.

    Attributes:
        name: plural noun for messages.
        layouts: public layouts that have the content.
        layers_of: chooses the layers of frames; None if frames never have the content.
        options: further arguments of the classes of `candlelight.loaders.public`, by layout.
    """

    name: str
    layouts: tuple[str, ...]
    layers_of: LayersOf | None = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def parse_data(text: str | Path) -> DataText:
    """Parse text that names data.

    Args:
        text: PATH, LAYOUT:PATH or hf:NAME; text that is an existing path always counts as a path.

    Raises:
        InputError: the layout is unknown, or nothing follows it.

    Example:
        >>> parse_data("mit:data/MIT-intrinsic"), parse_data("frames")
        (DataText(layout='mit', place='data/MIT-intrinsic'), DataText(layout='frames', place='frames'))
        >>> parse_data("cub7:birds")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: cub7:birds: there is no such path and no layout `cub7`; \
expected a path or one of mit:PATH, ..., hf:NAME; did you mean `cub70`?
    """
    name = str(text)
    prefix, colon, place = name.partition(":")
    is_url = prefix == "file" or "://" in name
    if isinstance(text, Path) or not colon or is_url or _exists(name):
        return DataText(FRAMES, name)
    if prefix in _PREFIXES:
        if not place:
            raise InputError(f"expected {_form(prefix)}, got `{name}` with nothing after the colon")
        return DataText(prefix, place)
    if len(prefix) == 1 or "/" in prefix or "\\" in prefix:  # a drive, or a missing path
        return DataText(FRAMES, name)
    raise InputError(
        f"{name}: there is no such path and no layout `{prefix}`; expected a path or one of "
        f"{', '.join(map(_form, _PREFIXES))}{did_you_mean(prefix, _PREFIXES)}"
    )


def split_secondary(text: str) -> tuple[str, dict[str, str]]:
    """Split the text of secondary data: PATH[:SET[:SPLIT]], LAYOUT:PATH[:SPLIT] or hf:NAME.

    Args:
        text: text from the user; it stays whole if the path before the colons does not exist.

    Returns:
        Text for `parse_data`, and keyword arguments with set and split for the functions of
        `candlelight.evaluation.views`.

    Example:
        >>> split_secondary(".:negatives:train"), split_secondary("frames")
        (('.', {'set_name': 'negatives', 'split': 'train'}), ('frames', {}))
        >>> split_secondary("mit:.:grosse"), split_secondary("hf:me/sets:train")
        (('mit:.', {'split': 'grosse'}), ('hf:me/sets:train', {}))
    """
    source = parse_data(text) if text.partition(":")[0] in _PREFIXES else DataText(FRAMES, text)
    words: list[str] = []
    place = source.place
    while ":" in place and not _exists(place):
        place, _, word = place.rpartition(":")
        words.insert(0, word)
    names = ("split",) if source.layout in LAYOUTS else ("set_name", "split")
    if source.layout == HUGGING_FACE or not _exists(place) or len(words) > len(names):
        return text, {}
    data = f"{source.layout}:{place}" if source.layout in LAYOUTS else place
    return data, dict(zip(names, words, strict=False))


def open_rows(request: Request, content: Content) -> NamedRows:
    """Open data with some content, and choose rows.

    Raises:
        InputError: the data are missing, or have other content.
    """
    if not isinstance(request.data, str | Path):
        return _name_rows(request, content)
    source = parse_data(request.data)
    if source.layout in LAYOUTS:
        _check_content(request, source.layout, content)
        options = content.options.get(source.layout, {})
        return open_public(source.layout, Path(source.place), request, **options)
    if content.layers_of is None:
        raise _missing_content(request, FRAMES, content)
    place = source.place if source.layout == FRAMES else hub_folder(source.place)
    return open_frame_rows(place, request, content.layers_of)


def hub_folder(name: str, patterns: list[str] | None = None) -> Path:
    """Return a folder of a data set of the Hugging Face Hub.

    Args:
        name: an existing folder, or the name of a data set, which is downloaded to the Hub's cache.
        patterns: patterns of the files to download; None for all.

    Raises:
        InputError: the data set cannot be downloaded.
    """
    if Path(name).is_dir():
        return Path(name)
    return download_snapshot(f"hf:{name}", name, patterns, "dataset")


def _name_rows(request: Request, content: Content) -> NamedRows:
    if request.set_name is not None or request.split is not None:
        raise InputError(
            f"expected no set and no split with a reader, which is already open, got set "
            f"{request.set_name!r} and split {request.split!r}"
        )
    layout = layout_of(request.data)
    if layout is not None:
        _check_content(request, layout, content)
        return name_public(request.data, layout, request)
    if not hasattr(request.data, "set_info"):
        raise InputError(
            "expected PATH, LAYOUT:PATH, hf:NAME, a reader of frames or one of candlelight.loaders.public, "
            f"got {request.name}"
        )
    if content.layers_of is None:
        raise _missing_content(request, FRAMES, content)
    return name_frames(request.data, request, content.layers_of)


def _check_content(request: Request, layout: str, content: Content) -> None:
    if layout not in content.layouts:
        raise _missing_content(request, layout, content)


def _missing_content(request: Request, layout: str, content: Content) -> InputError:
    frames = f"{FRAMES} or " if content.layers_of else ""
    return InputError(
        f"{request.name}: `{layout}` has no {content.name}; expected {frames}one of the layouts "
        f"{', '.join(content.layouts)}"
    )


def _form(prefix: str) -> str:
    return "hf:NAME" if prefix == HUGGING_FACE else f"{prefix}:PATH"


def _exists(name: str) -> bool:
    with suppress(OSError):  # a name that is too long
        return Path(name).exists()
    return False
