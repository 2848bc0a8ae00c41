"""Write frames in the layout of COCO: images, and a JSON file of boxes and masks for each image set."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from candlelight.loaders.exports.export_loop import (
    ExportCounts,
    ExportFiles,
    ExportUnit,
    fitting_sets,
    samples_sha256,
    write_export,
)
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import IMAGE
from candlelight.loaders.licences import licence_url
from candlelight.loaders.schema import DatasetInfo

_LAYERS = ("image", "object", "part")
_Annotation = dict[str, Any]  # "category_id" is a `_Category` until the file is written
_Category = tuple[str, str]  # supercategory and name
_BITS = 5  # of a number in one character of a mask
_SIGN, _MORE, _FIRST = 0x10, 0x20, 48


@dataclass(frozen=True)
class _Described:
    """The records of one frame."""

    image: dict[str, Any]
    objects: list[_Annotation]
    parts: list[_Annotation]


def export_coco(frames: Path | str, out: Path | str, set_name: str | None = None) -> ExportCounts:
    """Write the complete samples of image sets in the layout of COCO, for detection and segmentation.

    Lin et al., Microsoft COCO: Common objects in context, ECCV 2014. ``OUT/images/<set>/<number>.png`` are
    the images, ``OUT/annotations/instances_<set>.json`` their objects, with categories by the type of object,
    and ``OUT/annotations/parts_<set>.json`` their parts, with categories by type and part, if the set has the
    layer ``part``. An annotation holds the visible pixels of one object: its mask in compressed run lengths,
    its box (left, top, width, height; y from the top) and its area. An object that no pixel shows has none.

    The id of an image is the sample's number in its set. Further fields, which readers ignore: ``sample``
    (id) and ``factors`` of an image, ``object`` (value in the layer ``object``) and ``material`` of an
    object, ``object_id`` (id of the object's annotation) and ``part`` (value in the layer ``part``) of a
    part. Every image and layer is compared with its hash. The JSON files are written last, and depend on the
    samples alone.

    Args:
        frames: folder of frames; only sets with the layer ``object`` are written.
        out: folder to write: new, or started by the same export.
        set_name: the image set; None for all.

    Returns:
        How many samples were written now, and how many were found.

    Raises:
        InputError: there is no such set, none has objects, a frame is damaged, or the folder holds something
            else, such as an export of other samples.

    Example:
        >>> export_coco(Path("nowhere"), Path("coco"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/dataset.json is missing; name a folder of rendered \
frames
    """
    frames = Path(frames)
    fitting = fitting_sets(frames, set_name, lambda one: "object" in one.layers, "the layer `object`")
    sets = [
        FrameFolder(frames, name, [layer for layer in _LAYERS if layer in info.layers])
        for name, info in fitting.items()
    ]
    described: dict[tuple[str, int], _Described] = {}

    def image(one: FrameFolder, row: int) -> ExportFiles:
        described[one.set_name, row] = _describe(one, row)
        return {_image_file(one, row): (one.path(row) / IMAGE).read_bytes()}

    def annotations() -> ExportFiles:
        # Images of an earlier call are described now.
        by_set = {
            one.set_name: [
                described.get((one.set_name, row)) or _describe(one, row) for row in range(len(one))
            ]
            for one in sets
        }
        return _annotation_files(sets[0].info, by_set)

    units = [
        ExportUnit(_image_file(one, row), partial(image, one, row)) for one in sets for row in range(len(one))
    ]
    units.append(ExportUnit(_annotation_file("instances", sets[-1].set_name), annotations, 0))
    return write_export(
        Path(out),
        units,
        to="coco",
        sets=",".join(one.set_name for one in sets),
        samples=samples_sha256(sets),
        recipe=sets[0].info.recipe.sha256,
    )


def _image_file(frames: FrameFolder, row: int) -> str:
    return f"images/{frames.set_name}/{frames.indices[row]:06d}.png"


def _annotation_file(content: str, set_name: str) -> str:
    return f"annotations/{content}_{set_name}.json"


def _describe(frames: FrameFolder, row: int) -> _Described:
    frame = frames.frame(row, verify=True)
    metadata, layers = frame.metadata, frame.layers
    image = {
        "id": metadata.index,
        "file_name": Path(_image_file(frames, row)).name,
        "width": frames.set_info.width,
        "height": frames.set_info.height,
        **({"license": 1} if frames.info.licence else {}),
        "sample": metadata.id,
        "factors": metadata.factors,
    }
    objects, parts = [], []
    for number, record in enumerate(metadata.objects, 1):
        mask = layers["object"] == number
        # The layers hold 8 bits, so ids of one set differ, whatever samples are complete.
        object_id = metadata.index * 256 + number
        further = {"object": number, "material": record.material}
        objects += _annotation(mask, object_id, metadata.index, ("object", record.type), further)
        for part in record.parts if "part" in layers else ():
            part_mask = mask & (layers["part"] == part.index)
            part_id, further = object_id * 256 + part.index, {"object_id": object_id, "part": part.index}
            category = _part_category(record.type, part.name)
            parts += _annotation(part_mask, part_id, metadata.index, category, further)
    return _Described(image, objects, parts)


def _annotation(
    mask: Bool[ndarray, "height width"], number: int, image: int, category: _Category, further: dict[str, Any]
) -> list[_Annotation]:
    """Describe the pixels of a mask; return no annotation where there are none."""
    if not mask.any():
        return []
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    box = (columns[0], rows[0], columns[-1] - columns[0] + 1, rows[-1] - rows[0] + 1)
    return [
        {
            "id": number,
            "image_id": image,
            "category_id": category,
            "bbox": [int(number) for number in box],
            "area": int(mask.sum()),
            "segmentation": encode_mask(mask),
            "iscrowd": 0,
            **further,
        }
    ]


def _part_category(object_type: str, part: str) -> _Category:
    return object_type, f"{object_type} {part}"


def _annotation_files(info: DatasetInfo, described: dict[str, list[_Described]]) -> ExportFiles:
    # Known categories have the same numbers in exports of other sets of the data set.
    types = {("object", one.label) for one in info.assets if one.kind == "objects"}
    parts = {
        _part_category(name, part)
        for one in info.sets.values()
        for name, parts in one.parts.items()
        for part in parts
    }
    frames = [one for some in described.values() for one in some]
    categories = {
        "parts": _categories(parts, (one for frame in frames for one in frame.parts)),
        "instances": _categories(types, (one for frame in frames for one in frame.objects)),
    }
    files: dict[str, bytes] = {}
    for name, some in described.items():
        images = [one.image for one in some]
        for content, annotations in (
            ("parts", [part for one in some for part in one.parts]),
            ("instances", [part for one in some for part in one.objects]),
        ):
            if content == "instances" or "part" in info.sets[name].layers:
                record = _record(info, name, images, annotations, categories[content])
                files[_annotation_file(content, name)] = json.dumps(record).encode()
    return files


def _categories(known: set[_Category], annotations: Iterable[_Annotation]) -> dict[_Category, int]:
    """Number the categories from 1: known ones first, then those of the annotations, such as own code."""
    found = {one["category_id"] for one in annotations} - known
    return {category: number for number, category in enumerate([*sorted(known), *sorted(found)], 1)}


def _record(
    info: DatasetInfo,
    set_name: str,
    images: list[dict[str, Any]],
    annotations: list[_Annotation],
    categories: dict[_Category, int],
) -> dict[str, Any]:
    licence = {"id": 1, "name": info.licence, "url": licence_url(info.licence)}
    return {
        "info": {
            "description": f"{info.name}, set {set_name}: {info.description}",
            "version": info.candlelight,
            "recipe_sha256": info.recipe.sha256,
        },
        "licenses": [licence] if info.licence else [],
        "images": images,
        "annotations": [{**one, "category_id": categories[one["category_id"]]} for one in annotations],
        "categories": [
            {"id": number, "name": name, "supercategory": above}
            for (above, name), number in categories.items()
        ],
    }


def encode_mask(mask: Bool[ndarray, "height width"]) -> dict[str, list[int] | str]:
    """Encode a mask as the value of ``segmentation`` of an annotation: compressed run lengths.

    Pixels are counted down the columns: a run without the mask, a run within it, and so on. From the fourth
    run on, the difference from the run before the last one is written. A number is split into groups of 5
    bits, lowest first, and each group is a character: 48 + group, + 32 if further groups follow. The highest
    bit of the last group is the sign. These are the run lengths of Lin et al., Microsoft COCO, ECCV 2014, as
    their API writes them.

    Args:
        mask: the pixels of an object.

    Returns:
        ``size``, height and width, and ``counts``, the text of the runs.

    Example:
        >>> encode_mask(np.array([[False, True], [False, True], [True, True]]))
        {'size': [3, 2], 'counts': '24'}
    """
    return {"size": list(mask.shape), "counts": _text(_runs(mask))}


def _runs(mask: Bool[ndarray, "height width"]) -> Int[ndarray, " runs"]:
    pixels = mask.ravel(order="F")
    changes = np.flatnonzero(np.diff(pixels, prepend=False))
    return np.diff(changes, prepend=0, append=pixels.size)


def _text(runs: Int[ndarray, " runs"]) -> str:
    numbers = runs.copy()
    numbers[3:] -= runs[1:-2]
    characters = []
    for number in numbers.tolist():
        more = True
        while more:
            group, number = number & (2**_BITS - 1), number >> _BITS
            more = number != (-1 if group & _SIGN else 0)
            characters.append(chr(_FIRST + group + (_MORE if more else 0)))
    return "".join(characters)
