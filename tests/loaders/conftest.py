import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy import ndarray

from candlelight.loaders.frames import write_dataset_info, write_frame
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import DatasetInfo, FactorInfo, Metadata, SetInfo, array_sha256

HEIGHT, WIDTH = 24, 32
LAYERS = (
    *("image", "radiance", "albedo", "shading", "shading_direct", "shading_indirect", "residual"),
    *("depth", "normal", "object", "part", "position", "roughness", "metallic", "light/left", "light/right"),
)
GRID = (
    FactorInfo(name="color", kind="categorical", values=("red", "blue")),
    FactorInfo(name="size", kind="categorical", values=(1.5, 2, 2.5), unit="m"),
)
FREE = (
    FactorInfo(name="shape", kind="categorical", values=("cube", "cone", "torus")),
    FactorInfo(name="angle", kind="continuous", low=0.0, high=90.0, unit="degree"),
)


def _layers(rng: np.random.Generator) -> dict[str, ndarray]:
    def colour() -> ndarray:
        return rng.random((HEIGHT, WIDTH, 3)).astype(np.float16)

    plain = ("image", "depth", "object", "part", "position")
    arrays = {name: colour() for name in LAYERS if name not in plain}
    arrays["radiance"] = (arrays["albedo"] * arrays["shading"] + arrays["residual"]).astype(np.float16)
    arrays["image"] = rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    arrays["depth"] = rng.uniform(1, 9, (HEIGHT, WIDTH)).astype(np.float32)
    arrays["depth"][:4] = np.inf
    arrays["position"] = rng.uniform(-9, 9, (HEIGHT, WIDTH, 3)).astype(np.float32)
    arrays |= {name: arrays[name][..., 0].copy() for name in ("roughness", "metallic")}
    arrays["object"] = rng.integers(0, 4, (HEIGHT, WIDTH), np.uint8)
    arrays["part"] = rng.integers(0, 3, (HEIGHT, WIDTH), np.uint8)
    return {name: arrays[name] for name in LAYERS}


def _objects(count: int, area: int) -> list[dict]:
    seen = {"type": "cube", "material": "matte", "base_color": (0.8, 0.1, 0.1), "size": 1.5, "rotation": 30.0}
    seen |= {"location": (0.0, -1.0, 0.5), "bbox": (3, 4, 20, 18), "area": area}
    seen |= {"corners": tuple(i / 4 for i in range(24))}
    hidden = {"type": "torus", "material": "brick", "base_color": None, "size": 2.0, "rotation": 0.0}
    hidden |= {"location": (4.0, 0.0, 0.0)}
    return [seen, hidden, {**seen, "type": "cone"}][:count]


def _metadata(set_name: str, index: int, factors: dict, layers: dict[str, ndarray]) -> Metadata:
    text = {
        "id": f"{set_name}-{index:06d}",
        "set": set_name,
        "index": index,
        "recipe": {"name": "tiny", "sha256": "a" * 64},
        "unit": f"unit-{index}",
        "group": f"group-{index // 2}",
        "factors": factors,
        "exogenous": {"camera_jitter": 0.25},
        "intervention": {},
        "objects": _objects(1 + index % 3, 100 + index),
        "lights": [
            {"name": "left", "location": (1, 2, 3), "power": 60, "radius": 0.1, "color": (1, 1, 1)},
        ],
        "environment": None,
        "camera": {"intrinsics": np.eye(3).tolist(), "world_to_camera": np.eye(4).tolist()},
        "exposure": 1.0,
        "renderer": {
            **{"blender": "5.0.1", "device": "CPU", "cpu_features": "avx2"},
            **{"samples": 16, "denoiser": "none", "cycles_seed": 7},
        },
        "checks": {"identity_error": 1e-7, "stored_error": 0.0, "clipped": 0.01},
        "layers": {name: array_sha256(array) for name, array in layers.items()},
    }
    return Metadata.model_validate(text)


@pytest.fixture(scope="session")
def make_frame() -> Callable[..., Frame]:
    """Make one frame of set `grid` or `free`; another seed gives other pixels for the same sample."""

    def make(set_name: str = "grid", index: int = 0, seed: int = 0, drop: tuple[str, ...] = ()) -> Frame:
        layers = _layers(np.random.default_rng([seed, index]))
        layers = {name: array for name, array in layers.items() if name not in drop}
        if set_name == "grid":
            factors = {"color": GRID[0].values[index // 3 % 2], "size": GRID[1].values[index % 3]}
        else:
            factors = {"shape": FREE[0].values[index % 3], "angle": 12.5 * index}
        return Frame(_metadata(set_name, index, factors, layers), layers)

    return make


@pytest.fixture(scope="session")
def info() -> DatasetInfo:
    """Describe the small data set: `grid` is planned and complete, `free` lacks one of six samples."""
    common = {"count": 6, "width": WIDTH, "height": HEIGHT, "layers": LAYERS}
    return DatasetInfo(
        name="tiny",
        description="Two small sets of noise.",
        licence="CC-BY-4.0",
        recipe={"name": "tiny", "sha256": "a" * 64},
        seed=3,
        candlelight="0.1.0",
        blender="5.0.1",
        sets={
            "grid": SetInfo(**common, factors=GRID, varies=("size",)),
            "free": SetInfo(**common, factors=FREE),
        },
    )


@pytest.fixture(scope="session")
def frames_root(tmp_path_factory, make_frame, info) -> Path:
    """Write the small data set once; tests that change it take `frames_copy`."""
    root = tmp_path_factory.mktemp("frames")
    write_dataset_info(root, info)
    for index in range(6):
        write_frame(root, make_frame("grid", index))
    for index in (0, 1, 2, 4, 5):
        write_frame(root, make_frame("free", index))
    return root


# Per sample of sets with interventions: unit, step, factual sample, kinds of the interventions by name.
CAUSAL = {
    "train": [("u-0", None, None, {}), ("u-1", None, None, {}), ("u-2", None, None, {})],
    "changed": [
        ("u-0", None, "train-000000", {"shape": "hard"}),
        ("u-0", None, "train-000000", {"angle": "soft"}),
        ("u-0", None, "train-000000", {"angle": "drawn"}),
        ("u-2", None, "train-000002", {"angle": "hard", "shape": "soft"}),
        ("u-7", None, "train-000007", {"angle": "hard"}),
    ],
    "hidden": [("u-1", None, "train-000001", {"angle": "hard", "mood": "hard"})],
    "steps": [
        *[("s-0", 0, None, {}), ("s-0", 1, None, {"shape": "hard"}), ("s-0", 2, None, {"angle": "soft"})],
        *[("s-1", 0, None, {}), ("s-1", 1, None, {}), ("s-1", 2, None, {"shape": "drawn"})],
    ],
    "late": [  # of steps, whose factors have the same values in rows of the same number
        *[("s-0", 0, "steps-000000", {}), ("s-0", 1, "steps-000001", {"shape": "hard", "angle": "drawn"})],
        *[("s-0", 2, "steps-000002", {"angle": "hard"}), ("s-0", 3, "steps-000001", {"shape": "hard"})],
    ],
}


@pytest.fixture(scope="session")
def causal_root(tmp_path_factory, make_frame, info) -> Path:
    """Write small sets with counterfactuals, steps and interventions."""
    root = tmp_path_factory.mktemp("causal")
    one = info.sets["free"].model_copy(update={"layers": ("image",)})
    sets = {name: one.model_copy(update={"count": len(rows)}) for name, rows in CAUSAL.items()}
    write_dataset_info(root, info.model_copy(update={"sets": sets}))
    for set_name, rows in CAUSAL.items():
        for index, (unit, step, factual, kinds) in enumerate(rows):
            frame = make_frame("free", index, drop=LAYERS[1:])
            update = {"id": f"{set_name}-{index:06d}", "set": set_name, "unit": unit, "group": unit}
            update |= {"step": step, "counterfactual_of": factual, "intervention": dict.fromkeys(kinds, 1)}
            shown = frame.metadata.objects[0].model_copy(update={"type": frame.metadata.factors["shape"]})
            update["objects"] = (shown, *frame.metadata.objects[1:])
            update["intervention_kind"] = {name: kind for name, kind in kinds.items() if kind != "hard"}
            write_frame(root, Frame(frame.metadata.model_copy(update=update), frame.layers))
    return root


@pytest.fixture(scope="session")
def causal_packs(tmp_path_factory, causal_root) -> Path:
    """Pack the sets of `causal_root`, as HDF5 files in `hdf5` and as the Hugging Face folder `hub`."""
    root = tmp_path_factory.mktemp("causal_packs")
    pack_hdf5(causal_root, root / "hdf5")
    pack_hub(causal_root, root / "hub")
    return root


@pytest.fixture
def frames_copy(tmp_path, frames_root) -> Path:
    """Copy the small data set, for tests that damage or extend it."""
    return shutil.copytree(frames_root, tmp_path / "frames")


@pytest.fixture(scope="session")
def stored(tmp_path_factory, frames_root) -> Path:
    """Pack the small data set once, as HDF5 files in `hdf5` and as the Hugging Face folder `hub`."""
    root = tmp_path_factory.mktemp("stored")
    pack_hdf5(frames_root, root / "hdf5")
    pack_hub(frames_root, root / "hub")
    return root


@pytest.fixture
def stored_copy(tmp_path, stored) -> Path:
    """Copy the packs, for tests that damage them."""
    return shutil.copytree(stored, tmp_path / "stored")


@pytest.fixture(scope="session")
def torch():
    """Import torch, for single tests that need it; a reader makes tensors of a sample."""
    return pytest.importorskip("torch")
