"""Each protocol on a small copy of its own data set, from the command line, by a model and by files."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy import ndarray

from candlelight.evaluation.intrinsic.protocol_records import PROTOCOLS, ordinal_input
from candlelight.evaluation.run.result_files import read_results
from candlelight.evaluation.views import LAYOUTS, DecomposedImage, open_data
from candlelight.loaders.colour import linear_to_srgb, srgb_to_linear
from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.public.hypersim import hypersim_truth
from candlelight.loaders.public.mit import MIT_SPLITS
from tests.command_line import refusal, run
from tests.evaluation.noise_frames import load_builders
from tests.loaders.public.copies import write_exr

pytest.importorskip("OpenEXR")

# The data set and split of each protocol, and the files in which its perfect prediction is exact.
OWN = {
    "mit-grosse": ("mit", "grosse", "png16"),
    "mit-barron": ("mit", "barron-test", "png16"),
    "arap-ordinal": ("arap", "all", "npz"),
    "sintel": ("sintel", "test", "png8"),
    "sintel-crefnet": ("sintel", "test-nodefect", "npz"),
    "hypersim-marigold": ("hypersim", "test", "npy"),
    "interiorverse-marigold": ("interiorverse", "test", "exr"),
    "interiorverse-scaled": ("interiorverse", "test", "npz"),
    "interiorverse-linear": ("interiorverse", "val", "npy"),
    "interiorverse-linear-scaled": ("interiorverse", "test", "exr"),
    "stanford-orb": ("stanford-orb", "all", "png8"),
    "iiw-whdr": ("iiw", "all", "png16"),
    "iiw-gamma": ("iiw", "all", "exr"),
    "saw": ("saw", "test", "npz"),
    "saw-challenge": ("saw", "test", "npy"),
    "saw-challenge-linear": ("saw", "test", "exr"),
    "maw-2023": ("maw", None, "png8"),
}
KINDS = {"comparisons": "judgements", "labels": "judgements"}
ORACLE = """
from pathlib import Path
import numpy as np
import torch

def perfect(image):
    known = np.load(Path(__file__).with_suffix(".npz"))
    rows = [name.partition("_")[2] for name in known if name.startswith("image_")]
    found = []
    for one in image.numpy():
        near = [row for row in rows if known["image_" + row].shape == one.shape
                and np.allclose(known["image_" + row], one, atol=1e-6)]
        found.append(near[0])
    return tuple(torch.from_numpy(np.stack([known[f"{layer}_{row}"] for row in found]))
                 for layer in ("reflectance", "shading"))
"""
Truth = dict[str, tuple[ndarray, ndarray]]  # reflectance and shading of each id, linear, channels last


@pytest.fixture(scope="module")
def made() -> Any:
    """Import the writers of small copies, with images that have windows."""
    module = load_builders("loaders/public/copies.py")
    module.HEIGHT, module.WIDTH = 24, 32
    return module


def decoded(pixels: ndarray) -> ndarray:
    return srgb_to_linear(pixels / 255)


def truth_of_mit(made: Any, root: Path) -> Truth:
    objects = sorted({*MIT_SPLITS["grosse"], *MIT_SPLITS["barron-test"]})
    made.write_mit(root, objects=objects)
    layers = {name: made.mit_images(number) for number, name in enumerate(objects)}
    return {name: (own["reflectance"] / 65535, own["shading"] / 65535) for name, own in layers.items()}


def truth_of_arap(made: Any, root: Path) -> Truth:
    made.write_arap(root)
    numbers = {"Katie": (1, 2), "cream_light0": (5, 6), "cream_light1": (5, 7)}
    return {name: tuple(made.pixels(one) / 255 for one in own) for name, own in numbers.items()}


def truth_of_hypersim(made: Any, root: Path) -> Truth:
    made.write_hypersim(root)
    layers = [hypersim_truth(**made.hypersim_layers(number)) for number in range(len(made.HYPERSIM))]
    return {
        name: (own["reflectance"], own["shading"]) for name, own in zip(made.HYPERSIM, layers, strict=True)
    }


def truth_of_sintel(made: Any, root: Path) -> Truth:
    made.write_sintel(root)
    return {
        f"{scene}/frame_{frame:04d}": tuple(
            decoded(made.sintel_pixels(scene, frame, layer)) for layer in ("albedo", "shading")
        )
        for scene in made.SINTEL
        for frame in (1, 2)
    }


def truth_of_interiorverse(made: Any, root: Path) -> Truth:
    made.write_interiorverse(root)
    albedos = [made.interiorverse_layers(number)["albedo"] for number in range(len(made.INTERIORVERSE))]
    return {name: (own, 0 * own) for name, own in zip(made.INTERIORVERSE, albedos, strict=True)}


def truth_of_orb(made: Any, root: Path) -> Truth:
    made.write_stanford_orb(root)
    albedos = [decoded(made.pixels(number, 2)) for number in range(len(made.ORB))]
    return {name: (own, 0 * own) for name, own in zip(made.ORB, albedos, strict=True)}


def truth_of_iiw(made: Any, root: Path) -> Truth:
    """Paint what the comparisons of `JUDGED` say: the point at the left is darker, the others are equal."""
    made.write_iiw(root)
    reflectance = np.full((24, 32, 3), 0.5)
    reflectance[:, :10] = 0.2
    return {name: (reflectance, np.ones_like(reflectance)) for name in ("54", "116")}


def truth_of_saw(made: Any, root: Path) -> Truth:
    """Put the edge of a shadow into the labels: smooth on both sides of it, and unknown near it."""
    made.write_saw(root)
    labels = np.full((24, 32), 2)
    labels[:, 9:23], labels[:, 15:17] = 100, 1
    shading = np.full((24, 32, 3), 0.8)
    shading[:, 16:] = 0.1
    for number in (54, 116):
        np.save(made.saw_file(root, number), labels)
    return {name: (np.full_like(shading, 0.5), shading) for name in ("54", "116")}


def truth_of_maw(made: Any, root: Path) -> Truth:
    """Measure one gray wall that fills the photograph, of an albedo that 8 bits hold exactly."""
    made.write_maw(root)
    gray = decoded(np.full((1, 3), 128.0))
    names = ("scene_2/IMG_1", "scene_2/IMG_2", "scene_10/IMG_1")
    for name in names:
        made.save(root / "labels" / f"{name}_mask.png", np.full((24, 32), 10, np.uint8))
        np.save(root / "labels" / f"{name}.npy", gray)
    wall = np.broadcast_to(gray, (24, 32, 3))
    return {name: (wall, np.ones_like(wall)) for name in names}


def truth_of_mid(made: Any, root: Path) -> Truth:
    made.write_midintrinsics(root)
    rows = [(scene, direction) for scene in made.MID_SCENES for direction in range(25)]
    return {f"{scene}/dir_{direction}": made.mid_truth(scene, direction)[1:] for scene, direction in rows}


WRITE: dict[str, Callable[[Any, Path], Truth]] = {
    **{"mit": truth_of_mit, "arap": truth_of_arap, "hypersim": truth_of_hypersim, "sintel": truth_of_sintel},
    **{"interiorverse": truth_of_interiorverse, "stanford-orb": truth_of_orb, "iiw": truth_of_iiw},
    **{"saw": truth_of_saw, "maw": truth_of_maw, "midintrinsics": truth_of_mid},
}


@pytest.fixture(scope="module")
def own_data(made, tmp_path_factory) -> Callable[[str], tuple[str, Truth]]:
    """Return a function that writes the data set of a layout once: its text, and the truth by its writer."""
    root, written = tmp_path_factory.mktemp("own"), {}

    def data(layout: str) -> tuple[str, Truth]:
        if layout not in written:
            (root / layout).mkdir()
            written[layout] = f"{layout}:{root / layout}", WRITE[layout](made, root / layout)
        return written[layout]

    return data


def write_layer(folder: Path, kind: str, layer: str, name: str, values: ndarray) -> None:
    """Write a predicted layer; 8 bits are sRGB-encoded, 16 bits linear."""
    path = folder / layer / f"{name}.{kind.rstrip('168')}"
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "exr":
        stored = values.astype(np.float32)
        write_exr(path, stored if stored.ndim == 3 else {"Y": stored})
    elif kind == "npy":
        np.save(path, values.astype(np.float32))
    else:
        white, dtype = (255, np.uint8) if kind == "png8" else (65535, np.uint16)
        stored = linear_to_srgb(values) if kind == "png8" else values
        path.write_bytes(encode_png(np.rint(white * stored).astype(dtype)))


def write_predictions(folder: Path, kind: str, truth: Truth) -> list[object]:
    """Write predictions in files, and return the words that name them."""
    for name, layers in truth.items():
        named = dict(zip(("reflectance", "shading"), layers, strict=True))
        if kind == "npz":
            path = folder / f"{name}.npz"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, **{layer: values.astype(np.float32) for layer, values in named.items()})
            continue
        for layer, values in named.items():
            write_layer(folder, kind, layer, name, values)
    png = {"png8": ("--png", "srgb"), "png16": ("--png", "linear")}.get(kind, ())
    return ["--predictions", f"files={folder}", *png]


def write_oracle(folder: Path, images: dict[str, ndarray], truth: Truth) -> str:
    """Write a model that knows the truth of the images it is shown."""
    arrays = {}
    for row, (name, image) in enumerate(images.items()):
        arrays[f"image_{row}"] = image
        for layer, values in zip(("reflectance", "shading"), truth[name], strict=True):
            values = values if values.ndim == 3 else np.repeat(values[..., None], 3, axis=2)
            arrays[f"{layer}_{row}"] = np.moveaxis(values, 2, 0).astype(np.float32)
    np.savez(folder / "oracle.npz", **arrays)
    (folder / "oracle.py").write_text(ORACLE)
    return f"oracle={folder / 'oracle.py'}:perfect"


def prepared_rows(protocol: str, text: str, split: str | None, truth: Truth) -> Iterator[Any]:
    """Yield id, image and truth of each row as the protocol shows them to a model."""
    record = PROTOCOLS[protocol]
    options = {"shading": False} if record.reads == "decompositions" else {}
    view = open_data(KINDS.get(record.reads, record.reads), text, split=split, **options)
    for name, item in zip(view.ids, view, strict=True):
        layers = truth[name]
        image = item.image
        if protocol == "arap-ordinal":  # its image and truth are resized
            first = (torch.from_numpy(np.moveaxis(layer, 2, 0)).float() for layer in layers)
            shown = ordinal_input(DecomposedImage(image, *first, item.mask))
            image = shown.image
            layers = tuple(layer.permute(1, 2, 0).numpy() for layer in (shown.reflectance, shown.shading))
        elif protocol.startswith("interiorverse"):
            image = image.clamp(0, 1)
        yield name, image.numpy(), layers


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_perfect_prediction_has_the_perfect_score(own_data, tmp_path, protocol) -> None:
    layout, split, kind = OWN[protocol]
    text, truth = own_data(layout)
    rows = list(prepared_rows(protocol, text, split, truth))
    shown = {name: layers for name, _, layers in rows}
    model = write_oracle(tmp_path, {name: image for name, image, _ in rows}, shown)
    files = write_predictions(tmp_path / "files", kind, shown)
    words = ["evaluate", "protocols", text, "--protocol", protocol, "--model", model, *files]
    words += ["--split", split] if split else []
    run(*words, "--device", "cpu", "--out", tmp_path / "result.json")
    results = read_results(tmp_path / "result.json")
    assert len(results) == 2
    for result in results:
        assert result.about.settings["protocol"] == protocol
        for column, score in result.scores.items():
            best = 0.0 if PROTOCOLS[protocol].better == "lower" else 1.0
            # The program of SAW's area adds 1e-5 to denominators; a PSNR is infinite but for the last bits.
            near = 2e-5 if layout == "saw" else 1e-6
            perfect = column.startswith("psnr") and score.value > 120
            assert perfect or score.value == pytest.approx(best, abs=near), column


@pytest.mark.parametrize("layout", ["sintel", "midintrinsics"])
def test_the_perfect_prediction_has_no_error(own_data, tmp_path, layout) -> None:
    text, truth = own_data(layout)
    words = write_predictions(tmp_path / "files", "npz", truth)
    run("evaluate", "lmse", text, "--split", "all", *words, "--out", tmp_path / "result.json")
    for column, score in read_results(tmp_path / "result.json")[0].scores.items():
        assert score.value == pytest.approx(0, abs=1e-9), column


@pytest.mark.parametrize("layout", ["interiorverse", "stanford-orb"])
def test_data_of_albedo_alone_are_scored_by_the_protocols_of_reflectance(own_data, tmp_path, layout) -> None:
    text, _ = own_data(layout)
    split = OWN["interiorverse-scaled" if layout == "interiorverse" else layout][1]
    words = (text, "--split", split, "--model", "constant-shading", "--device", "cpu")
    run("evaluate", "protocols", *words, "--out", tmp_path / "result.json")
    results = read_results(tmp_path / "result.json")
    alone = {
        name for name, record in PROTOCOLS.items() if getattr(record.rule, "layers", None) == ("reflectance",)
    }
    assert {result.about.settings["protocol"] for result in results} == alone
    name = LAYOUTS[layout].name
    assert f"left out: sintel: {name} has no true shading" in results[0].details["notes"]
    assert f"protocol `mit-grosse`: {name} has no true shading" in refusal(
        "evaluate", "protocols", *words, "--protocol", "mit-grosse"
    )
    assert f"{name} has no true shading; choose a score of reflectance alone" in refusal(
        "evaluate", "lmse", *words
    )


@pytest.mark.parametrize("protocol", ["sintel", "sintel-crefnet"])
def test_scores_on_both_folds_of_sintel_are_the_mean_of_the_folds(own_data, tmp_path, made, protocol) -> None:
    text, _ = own_data("sintel")
    words = "evaluate", "protocols", text, "--protocol", protocol, "--model", "constant-shading"
    found = {}
    for split in ("all", "test"):
        run(*words, "--split", split, "--device", "cpu", "--out", tmp_path / f"{split}.json")
        found[split] = read_results(tmp_path / f"{split}.json")[0]
    both = found["all"]
    reverse = [row for row, name in enumerate(both.details["ids"]) if name.startswith("bandage_1/")]
    assert len(reverse) == 2  # of 20 frames
    for column, score in found["test"].scores.items():
        other = np.mean([both.details["columns"][column][row] for row in reverse])
        assert both.scores[column].value == pytest.approx((score.value + other) / 2, rel=1e-9)
        assert both.scores[column].low <= both.scores[column].value <= both.scores[column].high
    made.write_sintel_repack(tmp_path, scenes=("alley_2",))
    for folder in tmp_path.glob("MPI-main-*"):
        for file in folder.iterdir():
            file.with_name(file.name.replace("alley_2", "ambush_2")).write_bytes(file.read_bytes())
    assert "some scenes are in neither fold; give --split folds, train or test" in refusal(
        *words[:2], f"sintel:{tmp_path}", *words[3:], "--split", "all"
    )


@pytest.mark.parametrize(("layer", "channel"), [("roughness", 0), ("metallic", 1)])
def test_materials_of_interiorverse_are_scored(own_data, tmp_path, made, layer, channel) -> None:
    text, _ = own_data("interiorverse")
    for number, name in enumerate(made.INTERIORVERSE):
        values = made.interiorverse_layers(number)["material"][..., channel]
        write_layer(tmp_path / "files", "exr", layer, name, values)
    words = "--layer", layer, "--predictions", tmp_path / "files", "--split", "test"
    run("evaluate", "layer", text, *words, "--out", tmp_path / "result.json")
    found, control = read_results(tmp_path / "result.json")
    assert (found.score, found.scores[f"ssim_{layer}"].value) == (0, 1)
    assert control.score > 0.2


@pytest.mark.parametrize("kind", ["npz", "exr"])
@pytest.mark.parametrize(
    "layout", ["mit", "arap", "hypersim", "sintel", "interiorverse", "stanford-orb", "midintrinsics"]
)
def test_the_layers_that_were_written_are_those_that_are_scored(own_data, tmp_path, layout, kind) -> None:
    text, truth = own_data(layout)
    files = write_predictions(tmp_path / "files", kind, truth)
    split = "test" if layout in ("hypersim", "interiorverse") else "all"
    for layer in ("albedo", "shading")[: 1 if layout in ("interiorverse", "stanford-orb") else 2]:
        words = ("--layer", layer, "--split", split, "--resize", "20", *files)
        run("evaluate", "layer", text, *words, "--out", tmp_path / f"{layer}.json")
        found, control = read_results(tmp_path / f"{layer}.json")
        assert found.failed == ()
        assert found.scores[f"mae_{layer}"].value < 1e-6 < control.scores[f"mae_{layer}"].value
        assert found.scores[f"ssim_{layer}"].value > 1 - 1e-6
