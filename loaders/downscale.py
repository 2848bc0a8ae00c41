"""Make frames smaller by averaging light over blocks of pixels, as if rendered with larger pixels."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Shaped
from numpy import ndarray

from candlelight.loaders.colour import srgb_to_linear, to_display, to_half
from candlelight.loaders.errors import InputError
from candlelight.loaders.light_sum import light_sum_error
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import (
    LIGHT_PREFIX,
    CameraRecord,
    ChecksRecord,
    Metadata,
    ObjectRecord,
    SetInfo,
    array_sha256,
    layer,
)

_SAMPLED = ("depth", "position", "object", "part")
_SHARES = ("shading_direct", "shading_indirect")
_PARTS = ("albedo", "shading", "residual")


def downscaled_set(set_info: SetInfo, factor: int) -> SetInfo:
    """Describe an image set whose frames `downscale` made smaller.

    Args:
        set_info: the image set.
        factor: how many times fewer pixels each side has.

    Raises:
        InputError: the factor is below 1 or does not divide both sides.

    Example:
        >>> large = SetInfo(count=1, width=320, height=240, layers=("image",), factors=())
        >>> small = downscaled_set(large, 5)
        >>> small.width, small.height
        (64, 48)
    """
    width, height = set_info.width, set_info.height
    if factor < 1 or width % factor or height % factor:
        raise InputError(
            f"downscaling: expected a whole factor that divides {width} x {height} pixels, got {factor}; "
            "choose a size that divides the size of the frames"
        )
    return set_info.model_copy(update={"width": width // factor, "height": height // factor})


def downscale(frame: Frame, set_info: SetInfo, factor: int) -> Frame:
    """Make a frame smaller by averaging light over square blocks of pixels.

    ``residual``, ``light/*``, ``albedo``, ``roughness`` and ``metallic`` become their means. ``shading`` and
    its shares become means weighted by ``albedo``, so that the new albedo x shading is the mean of the old.
    Then ``radiance`` is float16(albedo * shading + residual) again, and ``image`` is made from it. ``normal``
    is the mean direction. ``depth``, ``position``, ``object`` and ``part`` take the pixel in the middle of
    the block (the upper left of four middle pixels), so that they stay samples of one surface.

    The frame may have any of its layers. Without ``albedo``, shading is averaged over the pixels where it is
    not 0. Without ``radiance`` and the three layers that give it, ``image`` is averaged from its own pixels
    decoded to linear light, in which highlights are already clipped.

    Args:
        frame: the frame, with any of its layers; the result is exact only if all of them were read.
        set_info: the image set of the frame.
        factor: how many times fewer pixels each side has.

    Returns:
        The smaller frame. Its metadata has the new hashes of layers, intrinsics in new pixels, and boxes and
        areas of objects and parts counted in the new masks (divided if these layers are missing, with boxes
        rounded outwards). Checks are measured again if their layers are present; ``identity_error`` stays.

    Raises:
        InputError: the factor is below 1 or does not divide both sides, or a layer has another size.
    """
    downscaled_set(set_info, factor)
    size = (set_info.height, set_info.width)
    for name, array in frame.layers.items():
        if array.shape[:2] != size:
            raise InputError(
                f"`{frame.metadata.id}`, layer `{name}`: expected {size[0]} x {size[1]} pixels, got "
                f"{array.shape[0]} x {array.shape[1]}"
            )
    if factor == 1:
        return frame
    layers = {
        name: array[(factor - 1) // 2 :: factor, (factor - 1) // 2 :: factor].copy()
        for name, array in frame.layers.items()
        if name in _SAMPLED
    }
    layers |= _averages(frame.layers, factor)
    total = _total(layers)
    if total is None and "radiance" in frame.layers:
        total = _means(frame.layers["radiance"], factor)
    exposed = (
        None if total is None else to_half(total).astype(np.float32) * np.float32(frame.metadata.exposure)
    )
    if "radiance" in frame.layers and total is not None:
        layers["radiance"] = to_half(total)
    if "image" in frame.layers:
        layers["image"] = _image(frame.layers["image"], factor) if exposed is None else to_display(exposed)
    ordered = {name: layers[name] for name in frame.layers}
    return Frame(_metadata(frame.metadata, ordered, factor, exposed), ordered)


def _means(array: Shaped[ndarray, "height width ..."], factor: int) -> Float64[ndarray, "rows columns ..."]:
    """Average blocks of pixels."""
    height, width, *channels = array.shape
    blocks = array.reshape(height // factor, factor, width // factor, factor, *channels)
    return blocks.mean(axis=(1, 3), dtype=np.float64)


def _averages(old: Mapping[str, ndarray], factor: int) -> dict[str, ndarray]:
    """Average every layer that is neither sampled nor computed from other layers."""
    made: dict[str, ndarray] = {}
    for name, array in old.items():
        if name.startswith("shading"):
            made[name] = to_half(_weighted(array, old.get("albedo"), factor))
        elif name == "normal":
            mean = _means(array, factor)
            length = np.linalg.norm(mean, axis=-1, keepdims=True)
            made[name] = np.divide(mean, length, out=np.zeros_like(mean), where=length > 0).astype(np.float16)
        elif layer(name).dtype == "float16" and name != "radiance":
            made[name] = to_half(_means(array, factor))
    if "shading" in made and set(_SHARES) <= made.keys():
        made["shading"] = to_half(np.sum([made[name].astype(np.float32) for name in _SHARES], axis=0))
    return made


def _weighted(shading: ndarray, albedo: ndarray | None, factor: int) -> Float64[ndarray, "rows columns 3"]:
    """Average shading so that its product with the stored mean albedo is the mean product."""
    if albedo is None:
        weights = (shading != 0).any(axis=-1, keepdims=True).astype(np.float64)
        below = _means(weights, factor)
    else:
        weights = albedo.astype(np.float64)
        below = to_half(_means(albedo, factor)).astype(np.float64)
    above = _means(weights * shading.astype(np.float64), factor)
    return np.divide(above, below, out=np.zeros_like(above), where=np.broadcast_to(below, above.shape) > 0)


def _total(layers: Mapping[str, ndarray]) -> ndarray | None:
    """Compute albedo * shading + residual from the stored layers; None if a layer is missing."""
    if not set(_PARTS) <= layers.keys():
        return None
    albedo, shading, residual = (layers[name].astype(np.float32) for name in _PARTS)
    return albedo * shading + residual


def _image(image: ndarray, factor: int) -> ndarray:
    return to_display(_means(srgb_to_linear(image.astype(np.float64) / 255), factor))


def _metadata(
    metadata: Metadata, layers: dict[str, ndarray], factor: int, exposed: ndarray | None
) -> Metadata:
    changed: dict[str, Any] = {
        "objects": tuple(
            _smaller_object(record, number, layers, factor)
            for number, record in enumerate(metadata.objects, start=1)
        ),
        "camera": metadata.camera and _smaller_camera(metadata.camera, factor),
        "checks": _checks(metadata, layers, exposed),
        "layers": {name: array_sha256(array) for name, array in layers.items()},
    }
    return metadata.model_copy(update=changed)


def _smaller_camera(camera: CameraRecord, factor: int) -> CameraRecord:
    # Pixels are counted from the upper left corner, so the principal point scales as the focal lengths do.
    rows = [tuple(number / factor for number in row) for row in camera.intrinsics[:2]]
    return camera.model_copy(update={"intrinsics": (*rows, camera.intrinsics[2])})


def _smaller_object(
    record: ObjectRecord, number: int, layers: dict[str, ndarray], factor: int
) -> ObjectRecord:
    """Measure an object and its parts in the new masks; ``number`` is its value in the `object` layer."""
    mine = layers["object"] == number if "object" in layers else None
    parts = []
    for part in record.parts:
        shown = mine & (layers["part"] == part.index) if mine is not None and "part" in layers else None
        parts.append(part.model_copy(update=_extent(part.bbox, part.area, shown, factor)))
    return record.model_copy(
        update={**_extent(record.bbox, record.area, mine, factor), "parts": tuple(parts)}
    )


def _extent(
    bbox: tuple[int, int, int, int] | None, area: int, mask: Bool[ndarray, "rows columns"] | None, factor: int
) -> dict[str, Any]:
    """Bound and count the pixels of a mask; divide the old box and area if there is no mask."""
    if bbox is None:
        return {}
    if mask is None:
        left, top, right, bottom = bbox
        box = (left // factor, top // factor, -(-right // factor), -(-bottom // factor))
        return {"bbox": box, "area": max(1, round(area / factor**2))}
    rows, columns = mask.nonzero()
    if not len(rows):
        return {"bbox": None, "area": 0}
    corners = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    return {"bbox": tuple(map(int, corners)), "area": len(rows)}


def _checks(metadata: Metadata, layers: dict[str, ndarray], exposed: ndarray | None) -> ChecksRecord:
    changed: dict[str, Any] = {"light_sum_error": None}
    if exposed is not None:
        changed["clipped"] = float((exposed > 1).any(axis=-1).mean())
    elif "image" in layers:
        changed["clipped"] = float((layers["image"] == 255).any(axis=-1).mean())
    total = _total(layers)
    if "radiance" in layers and total is not None:
        stored = np.abs(total - layers["radiance"]) / np.maximum(1, np.abs(total))
        changed["stored_error"] = float(stored.max())
    lights = [name for name in metadata.layers if name.startswith(LIGHT_PREFIX)]
    if lights and "radiance" in layers and set(lights) <= layers.keys():
        changed["light_sum_error"] = light_sum_error([layers[name] for name in lights], layers["radiance"])
    return metadata.checks.model_copy(update=changed)
