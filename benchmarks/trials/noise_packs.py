"""Make small packs of noise in all three forms, for `fuzz_packs.py`."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np

FORMS = ("folder", "hdf5", "hub")
HEIGHT, WIDTH, SAMPLES = 12, 16, 4


def make_base(root: Path) -> None:
    """Write a folder of frames that `verify` finds whole, and pack it."""
    from candlelight.loaders import pack_hdf5, pack_hub
    from candlelight.loaders.packs.split_plan import read_split_plan

    make_frames(root / "folder")
    plan = read_split_plan(("train=0.5,test=0.5",), 0, None, ())
    pack_hdf5(root / "folder", root / "hdf5", sets=["a"])
    pack_hdf5(root / "folder", root / "hdf5", sets=["b"], plan=plan)
    pack_hub(root / "folder", root / "hub")


def make_frames(root: Path) -> None:
    """Write two sets of frames of noise with a plan and hashes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from candlelight.loaders.frames import write_dataset_info, write_frame
    from candlelight.loaders.schema import DatasetInfo, FactorInfo, SetInfo
    from candlelight.loaders.verification.checksums import SUMS, file_sha256, sums_text

    factors = (
        FactorInfo(name="color", kind="categorical", values=("red", "blue")),
        FactorInfo(name="angle", kind="continuous", low=0.0, high=90.0, unit="degrees"),
    )
    layers = ("image", "radiance", "albedo", "shading", "residual", "depth", "object", "part")
    one = SetInfo(count=SAMPLES, width=WIDTH, height=HEIGHT, layers=layers, factors=factors)
    info = DatasetInfo(
        name="noise",
        description="Noise.",
        licence="CC0-1.0",
        recipe={"name": "noise", "sha256": "a" * 64},
        seed=0,
        candlelight="0.1.0",
        sets={"a": one, "b": one},
    )
    write_dataset_info(root, info)
    table = []
    for set_name in info.sets:
        for index in range(SAMPLES):
            frame = noise_frame(set_name, index, layers)
            write_frame(root, frame)
            known = frame.metadata
            values = {f"factor.{name}": value for name, value in known.factors.items()}
            table.append({"id": known.id, "set": set_name, "index": index, **values})
    pq.write_table(pa.Table.from_pylist(table), root / "plan.parquet")
    shutil.rmtree(root / ".partial", ignore_errors=True)
    hashes = {name: file_sha256(root / name) for name in ("dataset.json", "plan.parquet")}
    (root / SUMS).write_text(sums_text(hashes))


def noise_frame(set_name: str, index: int, names: tuple[str, ...]) -> Any:
    """Make one frame."""
    from candlelight.loaders.samples import Frame
    from candlelight.loaders.schema import Metadata, array_sha256, layer

    rng = np.random.default_rng([len(set_name), ord(set_name[0]), index])
    layers = {}
    for name in names:
        spec = layer(name)
        high = 256 if name == "image" else 3
        shape = spec.shape(HEIGHT, WIDTH)
        noise = rng.integers(0, high, shape) if spec.dtype == "uint8" else rng.random(shape)
        layers[name] = noise.astype(spec.dtype)
    objects = [
        {
            **{"type": "cube", "material": "matte", "base_color": [0.5, 0.1, 0.1] if index % 2 else None},
            **{"size": 1.5, "rotation": 30.0, "location": [0.0, 0.0, 0.5], "bbox": [0, 0, 4, 4], "area": 9},
            "parts": [{"name": "top", "index": 1, "material": "matte", "base_color": None}],
        }
    ] * (index % 3)
    text = {
        **{"id": f"{set_name}-{index:06d}", "set": set_name, "index": index, "unit": f"{set_name}/{index}"},
        **{"recipe": {"name": "noise", "sha256": "a" * 64}, "group": f"g{index}", "exogenous": {"x": 0.25}},
        "factors": {"color": ("red", "blue")[index % 2], "angle": 22.5 * index},
        **{"intervention": {}, "objects": objects, "lights": [], "environment": None, "camera": None},
        **{"exposure": 1.0, "renderer": None},
        "checks": {"identity_error": None, "stored_error": 0.0, "clipped": 0.0},
        "layers": {name: array_sha256(array) for name, array in layers.items()},
    }
    return Frame(Metadata.model_validate(text), layers)
