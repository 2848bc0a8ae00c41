"""Texts that name data, PATH, LAYOUT:PATH or hf:NAME, and the public data sets by their layouts."""

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from candlelight.evaluation.views.named_rows import FRAMES, NamedRows, Request, choose_rows
from candlelight.evaluation.views.view_types import DataIdentity
from candlelight.loaders import public
from candlelight.loaders.choices import choose_name
from candlelight.loaders.errors import InputError, did_you_mean
from candlelight.loaders.files.urls import local_folder
from candlelight.loaders.hub.hub_cache import download_snapshot
from candlelight.loaders.public.arap import scene_of
from candlelight.loaders.public.celebamask import CELEBAMASK_SPLITS
from candlelight.loaders.public.cub import CUB70_SPLITS
from candlelight.loaders.public.grid_images import MPI3D_FILES
from candlelight.loaders.public.mit import MIT_SPLITS
from candlelight.loaders.public.sintel import SINTEL_SPLITS
from candlelight.loaders.public.stanford_orb import ORB_SPLITS

_PHOTOGRAPH = re.compile(r"dir_[0-9]+_mip([0-9])\.(jpg|exr)")


def _first(identifier: str) -> str:
    return identifier.partition("/")[0]


def _folder(identifier: str) -> str:
    return identifier.rpartition("/")[0]


def _own_ids(reader: Any, rows: Iterable[int]) -> list[str]:
    ids = reader.ids
    return [ids[row] for row in rows]


def _grid(reader: Any, rows: Iterable[int]) -> list[str]:
    layout = layout_of(reader)
    return [f"{layout}-{row:06d}" for row in rows]


@dataclass(frozen=True)
class PublicLayout:
    """A public data set.

    Attributes:
        name: name of the data set.
        kind: class that reads the data set.
        splits: values of the class's argument after the folders; empty without splits.
        ids: names rows, by the reader and their numbers.
        group: returns the group of a row by its id.
    """

    name: str
    kind: type
    splits: tuple[str, ...] = ()
    ids: Callable[[Any, Iterable[int]], list[str]] = _own_ids
    group: Callable[[str], str] = str


LAYOUTS = {
    "mit": PublicLayout("MIT Intrinsic Images", public.MITIntrinsic, ("all", *MIT_SPLITS), group=_first),
    "arap": PublicLayout("ARAP", public.ARAP, ("all", "csm"), group=lambda name: scene_of(name).lower()),
    "hypersim": PublicLayout("Hypersim", public.Hypersim, ("train", "val", "test"), group=_folder),
    "sintel": PublicLayout("MPI-Sintel", public.Sintel, ("all", *SINTEL_SPLITS), group=_folder),
    "interiorverse": PublicLayout(
        "InteriorVerse", public.InteriorVerse, ("train", "val", "test"), group=_folder
    ),
    "stanford-orb": PublicLayout("Stanford-ORB", public.StanfordORB, ("all", *ORB_SPLITS), group=_folder),
    "midintrinsics": PublicLayout(
        "MIDIntrinsics", public.MIDIntrinsics, ("all", "train", "test"), group=_folder
    ),
    "iiw": PublicLayout("IIW", public.IIW, ("all", "train", "test")),
    "saw": PublicLayout("SAW", public.SAW, ("train", "val", "test")),
    "maw": PublicLayout("Measured Albedo in the Wild", public.MAW, group=_folder),
    "multi-illumination": PublicLayout(
        "Multi-Illumination", public.MultiIllumination, ("all", "train", "test"), group=_folder
    ),
    "photometric-stereo": PublicLayout("Photometric Stereo", public.PhotometricStereo, group=_folder),
    "cub70": PublicLayout("CUB-70", public.CUB70, CUB70_SPLITS),
    "celebamask": PublicLayout("CelebAMask-HQ", public.CelebAMaskHQ, CELEBAMASK_SPLITS),
    "dsprites": PublicLayout("dSprites", public.DSprites, ids=_grid),
    "mpi3d": PublicLayout("MPI3D", public.MPI3D, ids=_grid),
    "shapes3d": PublicLayout("3D Shapes", public.Shapes3D, ids=_grid),
    "candle": PublicLayout("CANDLE", public.Candle),
    "tid2013": PublicLayout("TID2013", public.TID2013, group=lambda name: name.partition("_")[0]),
}

HUB = "hf"
_PREFIXES = (*LAYOUTS, HUB)


@dataclass(frozen=True)
class DataText:
    """Parsed text that names data: layout "frames", "hf" or a public layout, and a path or a name."""

    layout: str
    place: str


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


def split_text(text: str) -> tuple[str, dict[str, str]]:
    """Split the text of secondary data: PATH[:SET[:SPLIT]], LAYOUT:PATH[:SPLIT] or hf:NAME.

    Args:
        text: text from the user; it stays whole if the path before the colons does not exist.

    Returns:
        Text for `parse_data`, and set and split as keyword arguments of `open_data`.

    Example:
        >>> split_text(".:negatives:train"), split_text("frames")
        (('.', {'set_name': 'negatives', 'split': 'train'}), ('frames', {}))
        >>> split_text("mit:.:grosse"), split_text("hf:me/sets:train")
        (('mit:.', {'split': 'grosse'}), ('hf:me/sets:train', {}))
    """
    source = parse_data(text) if text.partition(":")[0] in _PREFIXES else DataText(FRAMES, text)
    words: list[str] = []
    place = source.place
    while ":" in place and not _exists(place):
        place, _, word = place.rpartition(":")
        words.insert(0, word)
    names = ("split",) if source.layout in LAYOUTS else ("set_name", "split")
    if source.layout == HUB or not _exists(place) or len(words) > len(names):
        return text, {}
    data = f"{source.layout}:{place}" if source.layout in LAYOUTS else place
    return data, dict(zip(names, words, strict=False))


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


def folder_of_sets(request: Request, text: DataText | None) -> Path:
    """Return the folder of data of which all sets are read.

    Raises:
        InputError: the data are a reader, or rows are given.
    """
    if request.rows is not None:
        raise InputError(f"rows: not for whole sets of a folder; choose by `limit`, got {request.rows!r}")
    if text is None:
        raise InputError(f"expected PATH or hf:NAME, whose sets are read as a whole, got {request.name}")
    return local_folder(text.place) if text.layout == FRAMES else hub_folder(text.place)


def _form(prefix: str) -> str:
    return "hf:NAME" if prefix == HUB else f"{prefix}:PATH"


def _exists(name: str) -> bool:
    with suppress(OSError):  # a name that is too long
        return Path(name).exists()
    return False


def open_public(layout: str, root: Path, request: Request, **options: Any) -> tuple[Any, DataIdentity]:
    """Open a public data set.

    Args:
        layout: one of `LAYOUTS`.
        root: folder of the data set.
        request: the split, and the set (the variant of MPI3D).
        options: further arguments of the class.

    Raises:
        InputError: files are missing or damaged; there are several splits, and none is named; or the split,
            set or row does not exist.
    """
    facts = LAYOUTS[layout]
    split = _split(layout, facts, request)
    set_name = _variant(root, request) if layout == "mpi3d" else request.set_name
    if set_name is not None and layout != "mpi3d":
        raise InputError(f"{request.name}: `{layout}` has no sets, got {set_name!r}; leave the set out")
    roots = (root, root) if layout == "cub70" else (root,)  # the folder holds both masks and images
    chosen = [value for value in (split, set_name) if value is not None]
    reader = facts.kind(*roots, *chosen, **_options(layout, root), **options)
    return reader, DataIdentity(facts.name, layout, set_name, split)


def layout_of(reader: object) -> str | None:
    """Return the layout of a reader; None for a reader outside `LAYOUTS`."""
    return next((name for name, facts in LAYOUTS.items() if isinstance(reader, facts.kind)), None)


def name_public(reader: Any, request: Request, identity: DataIdentity) -> NamedRows:
    """Choose rows of a reader and name them.

    Raises:
        InputError: a row does not exist.
    """
    facts, numbers = LAYOUTS[identity.layout], choose_rows(len(reader), request)
    ids = tuple(facts.ids(reader, numbers))
    groups = tuple(map(facts.group, ids))
    return NamedRows(identity, reader, numbers, ids, groups, lambda: facts.ids(reader, range(len(reader))))


def _cache_folder() -> Path | None:
    """Return the folder for unpacked files, ``candlelight`` in the user's cache; None without a home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "candlelight"
    except RuntimeError:  # a user without HOME whom the system does not know, as in containers
        return None


def _split(layout: str, facts: PublicLayout, request: Request) -> str | None:
    if facts.splits:
        return choose_name(request.name, "split", list(facts.splits), request.split)
    if request.split is not None:
        raise InputError(f"{request.name}: `{layout}` has no splits, got {request.split!r}; leave it out")
    return None


def _variant(root: Path, request: Request) -> str | None:
    """Choose the variant of MPI3D by its name or by the files in the folder."""
    names = {root.name} if root.is_file() else {path.name for path in root.glob("*.npz")}
    found = [variant for variant, files in MPI3D_FILES.items() if names & set(files)]
    if request.set_name is None and not found and not root.is_file():
        return None
    known = list(MPI3D_FILES) if request.set_name is not None or not found else found
    return choose_name(request.name, "set", known, request.set_name)


def _options(layout: str, root: Path) -> dict[str, Any]:
    """Choose further arguments by the files, which come in several sizes, formats and containers."""
    if layout == "celebamask":
        return {"groups": "paper"}
    if layout == "multi-illumination":
        scenes = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
        for scene in scenes:
            found = [_PHOTOGRAPH.fullmatch(path.name) for path in scene.iterdir()]
            kinds = sorted({(match[2] != "jpg", match[2], int(match[1])) for match in found if match})
            if kinds:
                return {"kind": kinds[0][1], "mip": kinds[0][2]}
    if layout in ("dsprites", "mpi3d", "shapes3d"):
        # Rows of HDF5 files are read in place; 3D Shapes prefers HDF5 to npz.
        in_hdf5 = root.suffix in (".h5", ".hdf5") or (layout == "shapes3d" and any(root.glob("*.h5")))
        return {"cache": None if in_hdf5 else _cache_folder()}
    return {}
