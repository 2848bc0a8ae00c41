import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy import ndarray

from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import CameraRecord, FactorInfo, ObjectRecord, SetInfo, array_sha256


@pytest.fixture(scope="session")
def read_png16() -> Callable[[Path | bytes], ndarray]:
    """Return an independent reader of 16-bit PNG, written from the standard; it checks every checksum."""

    def chunks(data: bytes) -> dict[bytes, bytes]:
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        found, at = {}, 8
        while at < len(data):
            (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
            body, at = data[at + 8 : at + 8 + length], at + 12 + length
            assert struct.unpack(">I", data[at - 4 : at]) == (zlib.crc32(kind + body),)
            found[kind] = found.get(kind, b"") + body
        assert not found[b"IEND"]
        return found

    def paeth(a: int, b: int, c: int) -> int:
        distances = [abs(b - c), abs(a - c), abs(a + b - 2 * c)]
        return (a, b, c)[distances.index(min(distances))]

    def read(source: Path | bytes) -> ndarray:
        found = chunks(source if isinstance(source, bytes) else source.read_bytes())
        width, height, depth, colour, *rest = struct.unpack(">IIBBBBB", found[b"IHDR"])
        assert (depth, rest) == (16, [0, 0, 0])
        pixel = 2 * {0: 1, 2: 3}[colour]
        data, stride = zlib.decompress(found[b"IDAT"]), 1 + width * pixel
        assert len(data) == height * stride
        above, rows = bytes(stride - 1), []
        for y in range(height):
            kind, row = data[y * stride], bytearray(data[y * stride + 1 : (y + 1) * stride])
            for x in range(len(row)):
                a, b = row[x - pixel] if x >= pixel else 0, above[x]
                c = above[x - pixel] if x >= pixel else 0
                row[x] = (row[x] + (0, a, b, (a + b) // 2, paeth(a, b, c))[kind]) % 256
            above = bytes(row)
            rows.append(np.frombuffer(above, ">u2").astype(np.uint16))
        image = np.stack(rows)
        return image.reshape(height, width, 3) if colour == 2 else image

    return read


def categorical(**values):
    return tuple(FactorInfo(name=name, kind="categorical", values=some) for name, some in values.items())


POSE = np.eye(4)


def camera(aimed=None, pose=POSE):
    aimed = None if aimed is None else aimed.tolist()
    intrinsics = [[10, 0, 16], [0, 10, 12], [0, 0, 1]]
    return CameraRecord(intrinsics=intrinsics, world_to_camera=pose.tolist(), aimed=aimed)


# A box of 2 x 1 x 4 m whose near face is 5 m in front of a camera of 10 pixels focal length.
BOX = [[x, y, z] for x in (-1, 1) for y in (0, 1) for z in (5, 9)]


def box_object(corners=BOX):
    flat = None if corners is None else np.ravel(corners).tolist()
    look = {"type": "torus", "material": "red", "base_color": None, "location": (0, 0, 0)}
    return ObjectRecord(**look, size=2, rotation=278.87, corners=flat)


@pytest.fixture(scope="session")
def write_images(make_frame, info):
    """Return a function that writes frames with an image, by set, number, factors and further metadata."""

    def write(root, sets, frames):
        sets = {
            name: SetInfo(count=3, width=32, height=24, layers=("image",), factors=factors, varies=varies)
            for name, (factors, varies) in sets.items()
        }
        write_dataset_info(root, info.model_copy(update={"sets": {**sets, **info.sets}}))
        for name, index, factors, changes in frames:
            made = make_frame("grid", index % 6)
            changes = {
                "set": name,
                "index": index,
                "id": f"{name}-{index:06d}",
                "factors": factors,
                **changes,
            }
            changes["layers"] = {"image": made.metadata.layers["image"]}
            layers = {"image": made.layers["image"]}
            write_frame(root, Frame(made.metadata.model_copy(update=changes), layers))
        return root

    return write


@pytest.fixture(scope="session")
def candle_frames(tmp_path_factory, write_images):
    """Write three frames that have CANDLE's factors, with gaps between their numbers."""
    labels = {"scene": "city square", "lights": "left", "object_type": "torus", "color": "red"}
    labels |= {"size": 2, "rotation": 30}
    factors = categorical(**{name: (value, value + value) for name, value in labels.items()})
    more = {"objects": (box_object(),), "camera": camera()}
    frames = [("candle", index, labels, more) for index in (0, 3541, 21599)]
    return write_images(tmp_path_factory.mktemp("candle"), {"candle": (factors, ())}, frames)


CONCEPTS = categorical(
    scene=("cube", "cube_sphere"),
    texturing=("rgb", "textured"),
    light_azimuth=(-60, 20),
    temperature=(2500, 6500),
    material=(0, 1, 2),
)


@pytest.fixture(scope="session")
def concept_frames(tmp_path_factory, write_images):
    """Write one frame of an albedo set and two of an illumination set."""
    fixed = {"scene": "cube_sphere", "texturing": "textured", "temperature": 2500}
    frames = [
        ("albedo", 0, {**fixed, "light_azimuth": 20, "material": 2}, {}),
        ("illumination", 1, {**fixed, "light_azimuth": -60, "material": 0}, {}),
        ("illumination", 2, {**fixed, "light_azimuth": 20, "material": 0}, {}),
    ]
    sets = {"albedo": (CONCEPTS, ("material",)), "illumination": (CONCEPTS, ("light_azimuth",))}
    return write_images(tmp_path_factory.mktemp("concepts"), sets, frames)


# ------------------------------------------------------------------------------------------------- captures

HEIGHT, WIDTH = 24, 32
LAYERS = ("image", "radiance", "albedo", "shading", "shading_direct", "residual", "object")
ITEMS, LIGHTS, PAINTS = ("cup", "deer"), ("main", "second", "light01", "light02"), ("own", "uniform")
MASK = np.zeros((HEIGHT, WIDTH), bool)
MASK[3:-3, 4:-4] = True
HIGHLIGHT = (10, 10)


def albedo(item, paint):
    """Return two halves, in powers of two so that halving, doubling and float16 are exact."""
    image = np.full((HEIGHT, WIDTH, 3), 0.5)
    if paint == "own":
        image[:] = (0.25, 0.5, 0.125)
        image[:, WIDTH // 2 :] = (0.5, 0.125, 0.0625) if item == "cup" else (0.125, 0.125, 1.0)
    return image


def shading(light):
    """Return light from the left or from the right, in powers of two; `second` is dark on the right."""
    ramp = 2.0 ** -(np.arange(WIDTH) // 8)
    ramp = {"main": ramp, "second": np.where(np.arange(WIDTH) < 20, 0.5, 0), "light01": ramp[::-1]}.get(
        light, ramp / 2
    )
    return np.broadcast_to(ramp[None, :, None], (HEIGHT, WIDTH, 3))


def gloss(paint):
    image = np.zeros((HEIGHT, WIDTH, 3))
    if paint == "own":
        image[8:12, 8:12] = 0.0625
        image[HIGHLIGHT] = 4.0
    return image


def layers_of(item, light, paint):
    made = {
        "albedo": albedo(item, paint),
        "shading": shading(light),
        "shading_direct": shading(light),
        "residual": gloss(paint),
    }
    made["radiance"] = made["albedo"] * made["shading"] + made["residual"]
    made = {name: array.astype(np.float16) for name, array in made.items()}
    made |= {"image": np.zeros((HEIGHT, WIDTH, 3), np.uint8), "object": MASK.astype(np.uint8)}
    return {name: made[name] for name in LAYERS}


@pytest.fixture(scope="session")
def write_captures(make_frame, info):
    """Return a function that writes the captures, with changes as passed."""

    def write(root, *, lights=LIGHTS, items=ITEMS, drop=(), without=None, change=lambda key, layers: layers):
        values = {"item": items, "material": PAINTS, "light": lights}
        factors = categorical(**{name: some for name, some in values.items() if name != drop})
        keys = [(item, light, paint) for item in items for paint in PAINTS for light in lights]
        names = tuple(name for name in LAYERS if name != drop)
        captures = SetInfo(count=len(keys), width=WIDTH, height=HEIGHT, layers=names, factors=factors)
        write_dataset_info(root, info.model_copy(update={"sets": {"captures": captures}}))
        for index, key in enumerate(keys):
            if key == without or (key[2] == "uniform" and key[1] not in ("main", "second")):
                continue
            layers = {name: array for name, array in change(key, layers_of(*key)).items() if name != drop}
            made = make_frame("grid", 0).metadata
            light = made.lights[0].model_copy(update={"location": (float(lights.index(key[1])), 0.0, 3.0)})
            changes = {
                "set": "captures",
                "index": index,
                "factors": dict(zip(("item", "light", "material"), key, strict=True)),
                "lights": (light,),
                "layers": {name: array_sha256(array) for name, array in layers.items()},
            }
            write_frame(root, Frame(made.model_copy(update=changes), layers))
        return root

    return write


@pytest.fixture(scope="session")
def capture_frames(tmp_path_factory, write_captures):
    return write_captures(tmp_path_factory.mktemp("captures"))


def _ring_camera(view: int) -> CameraRecord:
    """Place a camera on a ring about the vertical axis, with an intrinsic of its own every third view."""
    angle = np.radians(40 * view + 7)
    location = np.array([4 * np.sin(angle), 4 * np.cos(angle), 2.0])
    forward = (np.array([0, 0, 0.4]) - location) / np.linalg.norm(np.array([0, 0, 0.4]) - location)
    right = np.cross(forward, (0, 0, 1.0)) / np.linalg.norm(np.cross(forward, (0, 0, 1.0)))
    pose = np.eye(4)
    pose[:3, :3] = np.stack([right, np.cross(forward, right), forward])
    pose[:3, 3] = -pose[:3, :3] @ location
    focal = 30.0 if view % 3 else 34.0
    intrinsics = [[focal, 0, 15.0], [0, focal, 12.5], [0, 0, 1]]
    return CameraRecord.model_validate({"intrinsics": intrinsics, "world_to_camera": pose.tolist()})


def _ball_on_floor(camera: CameraRecord, height: int, width: int) -> dict[str, ndarray]:
    """Trace a ball of radius 0.6 on the floor z = 0, lit evenly, without Blender; the sky is at infinity."""
    pose, lens = np.array(camera.world_to_camera), np.array(camera.intrinsics)
    rows, columns = np.mgrid[:height, :width] + 0.5
    rays = np.stack([columns, rows, np.ones_like(rows)], axis=-1) @ np.linalg.inv(lens).T @ pose[:3, :3]
    origin, middle = -pose[:3, :3].T @ pose[:3, 3], np.array([0.2, 0.1, 0.6])
    with np.errstate(divide="ignore", invalid="ignore"):
        floor = -origin[2] / rays[..., 2]
        half, full = rays @ (middle - origin), (rays**2).sum(axis=-1)
        ball = (half - np.sqrt(half**2 - full * (((middle - origin) ** 2).sum() - 0.36))) / full
    ball, floor = np.where(ball > 0, ball, np.inf), np.where((floor > 0) & (floor < 9), floor, np.inf)
    depth = np.minimum(ball, floor)
    hit = np.isfinite(depth)
    position = np.where(hit[..., None], origin + rays * np.where(hit, depth, 0)[..., None], 0)
    image = np.where(hit[..., None], 60 + 40 * np.cos(3 * position), 20).astype(np.uint8)
    arrays = {"image": image, "depth": depth.astype(np.float32), "position": position.astype(np.float32)}
    return arrays | {"object": (np.isfinite(ball) & (ball <= floor)).astype(np.uint8)}


@pytest.fixture(scope="session")
def scene_frames(tmp_path_factory, make_frame, info) -> Path:
    """Write views of three scenes: nine, two and one; `flat` has the first scene without `position`."""
    root = tmp_path_factory.mktemp("scenes")
    units = ["a"] * 9 + ["b"] * 2 + ["c"]
    sets = {}
    for name, layers in (("ring", ("image", "depth", "object", "position")), ("flat", ("image", "depth"))):
        count = len(units) if name == "ring" else 9
        one = info.sets["free"]
        sets[name] = one.model_copy(update={"count": count, "layers": layers})
        for index in range(count):
            frame = make_frame("free", index)
            camera = _ring_camera(index)
            arrays = _ball_on_floor(camera, one.height, one.width)
            arrays = {layer: arrays[layer] for layer in layers}
            update = {"set": name, "id": f"{name}-{index:06d}", "unit": units[index], "camera": camera}
            shown = frame.metadata.objects[0].model_copy(update={"type": "sphere", "area": 5 + index})
            update |= {"objects": (shown,), "group": f"{name}-{index}"}
            update["layers"] = {layer: array_sha256(array) for layer, array in arrays.items()}
            write_frame(root, Frame(frame.metadata.model_copy(update=update), arrays))
    write_dataset_info(root, info.model_copy(update={"sets": sets}))
    return root
