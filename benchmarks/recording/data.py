"""Make the data on which `benchmarks.record_evaluation` runs its commands, once, in a folder that is kept.

Frames are rendered small; public data sets are written in their layouts on disk by the makers of the tests.
Weights and result files that commands read are made here too, so that no command waits for another.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.recording.public_data import MAKERS

# Folder of frames: the recipe and its sets, and below it the fields that make it small.
RENDERS = {
    "controls": """concepts-controls --sets albedo_pose,illumination_pose,negatives
        image.width=80 image.height=60 render.samples=8
        sets.albedo_pose.factors.scene.values=[suzanne,cube_sphere_cone]
        sets.albedo_pose.factors.light_azimuth.values=[-20]
        sets.albedo_pose.factors.temperature.values=[2500,6500]
        sets.albedo_pose.factors.material.count=2
        sets.albedo_pose.factors.pose.count=8
        sets.illumination_pose.factors.scene.values=[suzanne,cube_sphere_cone]
        sets.illumination_pose.factors.temperature.values=[2500,6500]
        sets.illumination_pose.factors.material.count=1
        sets.illumination_pose.factors.light_azimuth.values=[-40,22]
        sets.illumination_pose.factors.pose.count=8
        sets.negatives.factors.scene.values=[suzanne,cube_sphere_cone]
        sets.negatives.factors.texturing.values=[rgb]
        sets.negatives.factors.draw.count=12""",
    "relit": """relit
        image.width=48 image.height=48 render.samples=8
        sets.train.factors.scene.count=6 sets.train.factors.light_azimuth.values=[-70,0,70]
        sets.test.factors.scene.count=3 sets.test.factors.light_azimuth.values=[-70,0,70]""",
    "parts": """parts
        image.width=64 image.height=64 render.samples=8 sets.parts.draws=4""",
    "recoloured": """parts-recoloured --sets bird,bird_changed,car,car_changed
        image.width=64 image.height=64 render.samples=8 sets.bird.draws=1 sets.car.draws=1""",
    "candle": """candle
        image.width=32 image.height=32 render.samples=4
        sets.candle.factors.scene.values=[grassland,garden]
        sets.candle.factors.lights.values=[left,right]
        sets.candle.factors.size.values=[1.5,2.5]
        sets.candle.factors.rotation.values=[0]""",
    "identifiable": """identifiable --sets teapot
        image.width=32 image.height=32 render.samples=4 sets.teapot.draws=80""",
    "invariance": """invariance
        image.width=64 image.height=64 render.samples=8
        sets.translation.factors.scene.count=3
        sets.translation.factors.translation.values=[0,0.06,0.14,0.23,0.35]
        sets.parallax.factors.scene.count=3
        sets.parallax.factors.parallax.values=[0,0.06,0.14,0.23,0.35]
        sets.rotation.factors.scene.count=3
        sets.rotation.factors.rotation.values=[0,1,3,6,10.9]
        sets.scale.factors.scene.count=3
        sets.scale.factors.scale.values=[1,1.02,1.06,1.3,1.98]
        sets.illuminant.factors.scene.count=2
        sets.illuminant.factors.hue.values=[574,510,486,-554,-495]
        sets.illuminant.factors.saturation.values=[0,2,5,8]""",
}
# Frames, and their counterfactuals in a set of their own.
WHAT_IF = """toy-confounded --limit 12
    --do color=red --do color=green --do color=blue
    --do object_type=cylinder --do object_type=cone --do object_type=cube
    image.width=32 image.height=32 render.samples=4"""
# Trained by commands, on what is rendered above.
TRAININGS = {
    "kinds.pt": "classifier parts --label kind --size 64 --epochs 4 --validation 0.25",
    "vgg.pt": "classifier parts --label kind --backbone vgg_small --size 64 --epochs 2 --validation 0.25",
    "beta.pt": "causal candle --model beta-vae --codes 6 --steps 150 --rate 0.001",
    "factor.pt": "causal candle --model ss-factor-vae --labelled 40 --codes 6 --steps 60",
}
_KINDS = ("reflectance", "shading")


def prepare(cache: Path) -> None:
    """Make what the folder does not have yet; each entry is made under a temporary name."""
    cache.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[Path], None]] = {
        "demo": lambda path: _run("demo", "--out", str(path), "--workers", "2"),
        **{name: _renderer("render", text) for name, text in RENDERS.items()},
        "what-if": _renderer("counterfactual", WHAT_IF),
        **MAKERS,
        **{name: _trainer(cache, text) for name, text in TRAININGS.items()},
        "predictions": lambda path: _write_predictions(cache, path),
        "heatmaps": lambda path: _write_heatmaps(cache, path),
        "codes": lambda path: _write_codes(cache, path),
    }
    for name, make in makers.items():
        if (cache / name).exists():
            continue
        print(f"prepare {name}", flush=True)
        unfinished = cache / f"unfinished-{name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        make(unfinished)
        unfinished.rename(cache / name)


def _run(*words: str, folder: Path | None = None) -> None:
    """Run a command of this checkout; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "candlelight", *words], cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"candlelight {' '.join(words)}: {done.stderr}")


def _renderer(command: str, text: str) -> Callable[[Path], None]:
    """Return the maker of a folder of frames; words with a point before their = are fields of the recipe."""
    fields = [word for word in text.split() if "." in word.partition("=")[0]]
    words = [word for word in text.split() if word not in fields]
    words += [word for field in fields for word in ("--set", field)]
    return lambda path: _run(command, *words, "--out", str(path), "--workers", "2")


def _trainer(cache: Path, text: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        _run("train", *text.split(), "--device", "cpu", "--out", path.name, folder=cache)
        path.with_suffix(".json").unlink()

    return make


def _write_predictions(cache: Path, root: Path) -> None:
    """Write decompositions of the demo: of all sets, of test frames but one, and of these in each form."""
    from PIL import Image

    from candlelight.evaluation.views import open_data

    for name in ("arrays", "lacking", "all", *(f"{one}/{kind}" for one in ("png", "npy") for kind in _KINDS)):
        (root / name).mkdir(parents=True)
    for chosen in ("tabletop_test", "albedo", "illumination", "negatives"):
        view = open_data("images", str(cache / "demo" / "frames"), set_name=chosen)
        for row, name in enumerate(view.ids):
            image = view[row].numpy() ** 2.2
            shading = image.max(0)
            reflectance = image / (shading + 1e-6)
            kinds = ["all"]
            if chosen == "tabletop_test":
                kinds += ["arrays", "lacking"] if row else ["arrays"]
            for kind in kinds:
                np.savez(root / kind / f"{name}.npz", reflectance=reflectance, shading=shading)
            if chosen != "tabletop_test":
                continue
            for kind, values in zip(_KINDS, (reflectance.transpose(1, 2, 0), shading), strict=True):
                np.save(root / "npy" / kind / f"{name}.npy", values.astype(np.float32))
                pixels = np.rint(255 * values.clip(0, 1) ** (1 / 2.2)).astype(np.uint8)
                Image.fromarray(pixels).save(root / "png" / kind / f"{name}.png")


def _write_heatmaps(cache: Path, root: Path) -> None:
    """Write three heatmaps of each image of two sets: the channels of the image, averaged over blocks."""
    from candlelight.evaluation.views import open_data

    for folder, data, chosen in (("candle", "demo/frames", "candle"), ("parts", "parts", None)):
        (root / folder).mkdir(parents=True)
        view = open_data("images", str(cache / data), set_name=chosen)
        for row, name in enumerate(view.ids):
            image = view[row].numpy()
            high, wide = (side // 4 for side in image.shape[1:])
            maps = image[:, : 4 * high, : 4 * wide].reshape(3, high, 4, wide, 4).mean((2, 4))
            if folder == "parts":
                np.savez(root / folder / f"{name}.npz", heatmaps=maps.astype(np.float32))
            else:
                np.save(root / folder / f"{name}.npy", maps.astype(np.float32))


def _write_codes(cache: Path, root: Path) -> None:
    """Write codes of the demo's set `candle`, its factors mixed with noise, in each form."""
    import pyarrow
    import pyarrow.parquet

    from candlelight.evaluation.views import open_data

    view = open_data("factors", str(cache / "demo" / "frames"), set_name="candle")
    draws = np.random.default_rng(0)
    mixed = view.table @ draws.normal(size=(view.table.shape[1], 4))
    codes = mixed + 0.1 * draws.normal(size=mixed.shape)
    root.mkdir()
    np.savez(root / "mixed.npz", ids=np.array(view.ids), codes=codes)
    np.save(root / "mixed.npy", codes)
    columns = {f"code {number}": codes[:, number] for number in range(codes.shape[1])}
    pyarrow.parquet.write_table(pyarrow.table({"id": view.ids, **columns}), root / "mixed.parquet")
    (root / "graph.json").write_text('{"nodes": ["scene", "color"], "edges": [["scene", "color"]]}')
