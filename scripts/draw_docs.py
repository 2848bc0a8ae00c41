"""Draw pictures of README and docs: ``scripts/draw_docs.py [NAME]... [--frames FOLDER] [--meshes FOLDER]``.

Each picture has a folder of frames below ``--frames``. Frames that are there are not rendered again, so
delete the folder to draw with another version of Blender. The strips of README are cut out of the pictures of
the recipes. The results are committed.
"""

import argparse
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image, ImageDraw, ImageFont, ImageOps

from candlelight.generators import condition, counterfactual, load_recipe, make_plan, render
from candlelight.generators.commands.render_options import check_outcome
from candlelight.generators.planning.plan import Plan, plan_samples
from candlelight.generators.planning.plan_table import join
from candlelight.generators.user_assets.import_meshes import add_mesh
from candlelight.loaders import Frame, frame_path, read_frame
from candlelight.loaders.colour import to_display
from candlelight.loaders.exports.capture_frames import MAIN, OWN, SECOND, by_paper, by_passes, diffuse
from candlelight.loaders.looking.layer_pixels import Pixels, show_layer
from candlelight.loaders.looking.sheet import write_file
from candlelight.loaders.looking.sheet_rows import value_text
from candlelight.loaders.looking.sheet_tiles import BACKGROUND, INK, TILE_GAP, draw_text, side_by_side

DOCS = Path(__file__).parents[1] / "docs"
MOST_BYTES = 97_000  # of a picture; files of more than 100 kB are not committed


@dataclass(frozen=True)
class Grid:
    """A picture of samples in rows and columns: an entry of docs/gallery.yaml, which describes the fields."""

    caption: str
    recipe: str
    tile: Sequence[int]
    columns: int
    limit: int | None = None
    overrides: Sequence[str] = ()
    shown: Sequence[tuple[str, Mapping[str, Any]]] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    layers: Sequence[str] = ("image",)


FINE = ["render.samples=64"]  # the noise of the 16 samples of `candle` is visible


def read_gallery() -> dict[str, Grid]:
    """Read the grids of docs/gallery.yaml."""
    text = (DOCS / "gallery.yaml").read_text(encoding="utf-8")
    grids = {}
    for name, entry in yaml.safe_load(text).items():
        if "recipe" not in entry:
            continue
        beside = Path(__file__).with_name(entry["recipe"])
        if beside.is_file():
            entry["recipe"] = str(beside)
        shown = [(some.pop("set"), some) for some in entry.pop("shown", ())]
        grids[name] = Grid(**entry, shown=shown)
    return grids


GRIDS = read_gallery()
# Meshes of `concepts-scans` by label; other figures stand in for happy and max-planck.
SCANS = {
    **{label: f"{label}.obj" for label in ("homer", "nefertiti", "spot", "stanford-bunny")},
    **{"happy": "ogre.obj", "max-planck": "beast.obj"},
}


def draw_grid(grid: Grid, folder: Path, assets: Mapping[str, Path] | None = None) -> Pixels:
    """Render the samples of a grid, and draw them."""
    overrides = [*of_size(*grid.tile), f"layers=[{', '.join(grid.layers)}]", *grid.overrides]
    plan = make_plan(load_recipe(grid.recipe, overrides, assets=assets), grid.limit)
    parts = [
        condition(replace(plan, samples=plan.samples.of_set(image_set)), **values)
        for image_set, values in grid.shown
    ]
    cells = []
    for frame in render_parts(parts or [plan], folder):
        tiles = [show_layer(name, frame.layers[name], plan.recipe.exposure) for name in grid.layers]
        if label := grid.labels.get(frame.metadata.set):
            tiles.insert(0, draw_text([label.format_map(frame.metadata.factors)], grid.tile[0]))
        cells.append(np.concatenate(tiles))
    return in_columns(cells, grid.columns)


def of_size(width: int, height: int) -> list[str]:
    """Override the size of the images."""
    return [f"image.width={width}", f"image.height={height}"]


def render_parts(parts: Sequence[Plan], folder: Path) -> list[Frame]:
    """Render the samples of the parts of a plan that are not in the folder yet, and read all in order."""
    outcome = render(reduce(join, parts), folder)
    check_outcome(outcome, folder)
    print(f"{folder}: {outcome.written} frames rendered in {outcome.cpu_seconds:.0f} CPU s")
    keys = [key for part in parts for key in part.samples.keys]
    return [read_frame(frame_path(folder, key.set, key.index)) for key in keys]


def in_columns(cells: Sequence[Pixels], columns: int) -> Pixels:
    """Lay out cells of equal size in rows."""
    return stack([side_by_side(cells[i : i + columns]) for i in range(0, len(cells), columns)])


def stack(bands: Sequence[Pixels]) -> Pixels:
    """Put bands of equal width below one another, with gaps between them."""
    return side_by_side([band.swapaxes(0, 1) for band in bands]).swapaxes(0, 1)


DECOMPOSED = ("teapot", "vase", "knot", "gear")
COLUMNS = ("original", "diffuse", "shading", "reflectance", "specular")
LARGE, SMALL = (164, 117), (101, 72)  # five large tiles in a row are as wide as eight small ones


def draw_captures(folder: Path) -> Pixels:
    """Draw four objects with their intrinsic images, all objects, and one object under further lights."""
    plan = make_plan(load_recipe("captures", ["render.samples=16"]))
    lights = [f"light{number:02}" for number in range(1, 9)]
    parts = [
        condition(plan, light=MAIN, material=OWN),
        condition(plan, item=DECOMPOSED, light=(MAIN, SECOND)),
        condition(plan, item="bunny", light=lights),
    ]
    captured: dict[str, dict[tuple[str, str], Frame]] = {}
    for frame in render_parts(parts, folder):
        item, light, material = (str(frame.metadata.factors[name]) for name in ("item", "light", "material"))
        captured.setdefault(item, {})[light, material] = frame
    masks = {item: frames[MAIN, OWN].layers["object"] > 0 for item, frames in captured.items()}
    decomposed = [side_by_side([draw_text([name], LARGE[0]) for name in COLUMNS])]
    for item in DECOMPOSED:
        made = by_paper(captured[item], masks[item])
        white = dict.fromkeys(COLUMNS, bright(made.diffuse, masks[item]))
        white |= {name: bright(getattr(made, name), masks[item]) for name in ("shading", "reflectance")}
        white["specular"] /= 3
        images = [getattr(made, name) / white[name] for name in COLUMNS]
        decomposed.append(side_by_side([crop(image, masks[item], LARGE) for image in images]))
    objects = []
    for item, frames in captured.items():
        passes = by_passes(frames, masks[item])
        objects.append(crop(passes.original / bright(passes.diffuse, masks[item]), masks[item], SMALL))
    bunny, mask = captured["bunny"], masks["bunny"]
    lit = [diffuse(bunny[light, OWN], mask) for light in lights]
    white_bunny = max(bright(image, mask) for image in lit)
    bunnies = [crop(image / white_bunny, mask, SMALL) for image in lit]
    titles = ("the sixteen objects, main light", f"{lights[0]} .. {lights[-1]} of the bunny")
    first, second = (draw_text([title], decomposed[0].shape[1]) for title in titles)
    return stack([*decomposed, first, in_columns(objects, 8), second, side_by_side(bunnies)])


def bright(linear: np.ndarray, mask: np.ndarray) -> float:
    """Return the value that a hundredth of the values within the mask exceed."""
    return float(np.quantile(linear[mask], 0.99))


def crop(linear: np.ndarray, mask: np.ndarray, size: tuple[int, int]) -> Pixels:
    """Encode scene-linear values, gray or in colour, and fit the part within the mask into a tile."""
    colour = linear if linear.ndim == 3 else np.stack([linear] * 3, axis=-1)
    left, top, right, bottom = Image.fromarray(mask).getbbox() or (0, 0, 1, 1)
    part = Image.fromarray(to_display(colour)).crop((left - 4, top - 4, right + 4, bottom + 4))
    return np.asarray(ImageOps.pad(part, size, Image.Resampling.LANCZOS))


CHANGES = ({"color": "yellow"}, {"object_type": "cube"}, {"object_type": "cube", "color": "purple"})


def draw_counterfactuals(folder: Path) -> Pixels:
    """Draw two samples beside their counterfactuals."""
    recipe = load_recipe("candle", [*of_size(256, 192), *FINE])
    factual = plan_samples(recipe, ["candle-003541", "candle-012003"])
    bands: dict[str, list[tuple[Pixels, list[str]]]] = {}
    for frame in render_parts([factual, counterfactual(factual, *CHANGES)], folder):
        image, metadata = frame.layers["image"], frame.metadata
        if metadata.counterfactual_of is None:
            values = [f"{name} {value_text(value)}" for name, value in metadata.factors.items()]
            bands[metadata.id] = [(image, [metadata.id, *values])]
            continue
        band = bands[metadata.counterfactual_of]
        changes = zip(("had", "and"), metadata.intervention.items(), strict=False)
        asked = [f"{word} {name} been {value}" for word, (name, value) in changes]
        share = (image != band[0][0]).any(axis=-1).mean()
        band.append((image, [*asked[:-1], f"{asked[-1]}?", f"{share:.0%} of the pixels differ"]))
    drawn = []
    for band in bands.values():
        texts = [draw_text(words, 256) for _, words in band]
        blank = np.full((max(map(len, texts)), 256, 3), BACKGROUND, np.uint8)
        full = [np.concatenate([text, blank[len(text) :]]) for text in texts]
        drawn += [side_by_side([image for image, _ in band]), side_by_side(full)]
    return stack(drawn)


# The samples and the change of the command at the top of README.
ASKED, CHANGED = "candle-000412", {"color": "blue"}
SHOWN = ("image", "albedo", "shading", "depth", "normal", "object")
EQUAL = ("depth", "normal", "object")  # in every pixel, if the colour alone changed
README_TILE = (256, 192)


def draw_readme(folder: Path) -> Pixels:
    """Draw the layers of a sample, and below them those of its counterfactual."""
    asked = plan_samples(load_recipe("candle"), [ASKED])
    pair = render_parts([asked, counterfactual(asked, CHANGED)], folder)
    layers, changed = (frame.layers for frame in pair)
    differing = [name for name in EQUAL if not np.array_equal(layers[name], changed[name], equal_nan=True)]
    if differing or pair[1].metadata.factors != pair[0].metadata.factors | CHANGED:
        raise SystemExit(f"{ASKED}: more than {CHANGED} changed, {differing}")
    rows = [
        side_by_side([shrink(show_layer(name, frame.layers[name], asked.recipe.exposure)) for name in SHOWN])
        for frame in pair
    ]
    asking = ", ".join(f'{name}="{value}"' for name, value in CHANGED.items())
    names = side_by_side([heading(name, README_TILE[0]) for name in SHOWN])
    return np.concatenate([names, rows[0], heading(f"do({asking})", rows[0].shape[1]), rows[1]])


def shrink(pixels: Pixels) -> Pixels:
    """Shrink an image to a tile of README."""
    return np.asarray(Image.fromarray(pixels).resize(README_TILE, Image.Resampling.LANCZOS))


def heading(text: str, width: int) -> Pixels:
    """Write a text that can be read when the picture is shown at half its size."""
    band = Image.new("RGB", (width, 40), (BACKGROUND,) * 3)
    ImageDraw.Draw(band).text((8, 5), text, (INK,) * 3, ImageFont.load_default(24))
    return np.asarray(band)


def corners(name: str, *cells: tuple[int, int]) -> list[tuple[int, int]]:
    """Find the upper left corners of the tiles in some columns and rows of the picture of a grid."""
    grid = GRIDS[name]
    label = len(draw_text([""], 1)) if grid.labels else 0
    width, height = grid.tile[0], label + grid.tile[1] * len(grid.layers)
    return [(c * (width + TILE_GAP), r * (height + TILE_GAP) + label) for c, r in cells]


# Corners of the tiles of README's strip of each family of recipes, by the name of their picture.
STRIPS = {
    "candle": corners("candle", (0, 0), (1, 0), (2, 0)),
    "captures": [(column * (LARGE[0] + TILE_GAP), 21 + TILE_GAP) for column in (0, 2, 3)],  # below the names
    "concepts": corners("concepts", (0, 4), (4, 4), (0, 5), (4, 5)),
    "dead-leaves": corners("dead-leaves", (0, 0), (2, 0), (4, 0), (2, 1)),
    "effects-hidden": corners("effects-hidden", (0, 0), (4, 0), (0, 1), (0, 2)),
    "identifiable": corners("identifiable", (1, 0), (2, 0), (2, 2), (0, 3)),
    "invariance": corners("invariance", *((column, 2) for column in range(4))),
    "negatives": corners("negatives", (3, 0), (7, 0), (2, 1), (5, 2)),
    "paints-and-lights": corners("paints-and-lights", (0, 1), (3, 1), (4, 1), (4, 3)),
    "parts-recoloured": corners("parts-recoloured", (0, 0), (1, 0), (4, 0), (6, 1)),
    "parts-removed": corners("parts-removed", (0, 0), (1, 0), (2, 0), (4, 0)),
    "relit": corners("relit", (0, 1), (1, 1), (3, 1), (4, 1)),
    "sequences": corners("sequences", (0, 2), (1, 2), (2, 2), (3, 2)),
    "toy-confounded": corners("toy-confounded", (3, 0), (4, 0), (5, 0), (7, 0)),
}
STRIP_HEIGHT = 96


def draw_strip(name: str) -> Pixels:
    """Cut tiles out of the picture of a recipe, and put them side by side."""
    picture = Image.open(DOCS / "recipes" / f"{name}.jpg")
    width, height = LARGE if name == "captures" else GRIDS[name].tile
    size = (round(STRIP_HEIGHT * width / height), STRIP_HEIGHT)
    tiles = [picture.crop((left, top, left + width, top + height)) for left, top in STRIPS[name]]
    return side_by_side([np.asarray(tile.resize(size, Image.Resampling.LANCZOS)) for tile in tiles])


def import_scans(meshes: Path, folder: Path) -> dict[str, Path]:
    """Import the meshes that are not in the folder yet, and return it as a folder of assets."""
    for label, file in SCANS.items():
        if not (folder / f"{label}.blend").exists():
            add_mesh(meshes / file, folder, label=label, up="z" if label == "nefertiti" else None)
    return {"objects": folder}


def write_jpeg(path: Path, pixels: Pixels, best: int = 93) -> None:
    """Write a picture at the best quality at which it is small enough."""
    for quality in range(best, 0, -2):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=quality, optimize=True)
        if file.tell() <= MOST_BYTES:
            break
    write_file(path, file.getvalue())
    print(f"{path}: {pixels.shape[1]} x {pixels.shape[0]} pixels, {file.tell()} bytes, quality {quality}")


def main(names: Sequence[str], frames: Path, meshes: Path | None) -> None:
    """Draw pictures, by default all."""
    for name in names or (*GRIDS, "captures", "counterfactuals", "readme", "strips"):
        if name == "counterfactuals":
            write_jpeg(DOCS / f"{name}.jpg", draw_counterfactuals(frames / name))
        elif name == "readme":
            write_jpeg(DOCS / f"{name}.jpg", draw_readme(frames / name))
        elif name == "strips":
            for strip in STRIPS:
                write_jpeg(DOCS / "recipes" / "strips" / f"{strip}.jpg", draw_strip(strip), best=85)
        elif name == "captures":
            write_jpeg(DOCS / "recipes" / f"{name}.jpg", draw_captures(frames / name))
        elif name == "concepts-scans" and meshes is None:
            print(f"{name} is left out, because its meshes are not shipped: name their folder with --meshes")
        else:
            scans = import_scans(meshes, frames / "scans") if name == "concepts-scans" and meshes else None
            write_jpeg(DOCS / "recipes" / f"{name}.jpg", draw_grid(GRIDS[name], frames / name, scans))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="picture to draw, such as candle")
    parser.add_argument("--frames", type=Path, default=Path("build/docs"), help="folder of the frames")
    parser.add_argument("--meshes", type=Path, help=f"folder of {', '.join(SCANS.values())}")
    given = parser.parse_args()
    main(given.names, given.frames, given.meshes)
