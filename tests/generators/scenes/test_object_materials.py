from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.layout import Floor, Scene
from candlelight.generators.language.lights_and_camera import Camera, Light
from candlelight.generators.language.material_spec import TEXTURES, Material, RandomMaterial
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.generators.scenes.object_materials import (
    choose_material,
    choose_part_materials,
    draw_material,
    place_floor,
)
from candlelight.generators.scenes.plan_records import PlacedMaterial
from candlelight.loaders.colour import linear_to_srgb
from tests.refusals import refused

LIBRARY = AssetLibrary()
OWN = PlacedMaterial(label="own")


def inputs(unit="set/000000", seed=0, **values):
    return LayoutInputs(seed, unit, values)


def draw(appearance, chosen, name="0", library=LIBRARY):
    return draw_material(appearance, replace(chosen, library=library), name)


# ------------------------------------------------------------------------------------------------ drawn


def test_a_variation_is_the_same_at_every_call_and_differs_from_others():
    plain = RandomMaterial(variation="$n")
    colors = [draw(plain, inputs(n=n), i).base_color for n in range(20) for i in "01"]
    assert len(set(colors)) == 40
    assert draw(plain, inputs(n=7, other=3), "1").base_color == colors[15]
    assert draw(plain, inputs("set/000001", n=7), "1").base_color != colors[15]


def test_colours_are_uniform_in_srgb_encoded_values():
    plain = RandomMaterial(variation="$n", low=0.2, high=0.8)
    linear = np.array([draw(plain, inputs(n=n)).base_color for n in range(500)])
    seen = (linear_to_srgb(linear) - 0.2) / 0.6
    assert seen.min() > -1e-4
    assert seen.max() < 1 + 1e-4
    counts = np.stack([np.histogram(seen[:, channel], 10, (-1e-4, 1 + 1e-4))[0] for channel in range(3)])
    # Chi square with 9 degrees of freedom: 33.7 is exceeded once in ten thousand.
    assert (((counts - 50) ** 2 / 50).sum(axis=1) < 33.7).all()


def test_textures_are_drawn_evenly_and_placed():
    textured = RandomMaterial(texturing="$t", variation="$n")
    drawn = [draw(textured, inputs(t="textured", n=n)) for n in range(900)]
    labels, counts = np.unique([material.label for material in drawn], return_counts=True)
    assert labels.tolist() == list(TEXTURES) == LIBRARY.labels("textures")
    assert len(TEXTURES) == 18
    assert ((counts - 50) ** 2 / 50).sum() < 46.3  # 17 degrees of freedom, once in ten thousand
    assert all(material.base_color is None and material.color_a != material.color_b for material in drawn)
    assert all(0.7 <= material.scale <= 1.8 and not material.image for material in drawn)


# ------------------------------------------------------------------------------------------------ images


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two classes of two small images each."""
    for name in ("banded", "dotted"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in (2, 4):
            picture = Image.fromarray(np.full((8, 12, 3), 60 * number, np.uint8))
            picture.save(tmp_path / "images" / name / f"{name}_{number:04d}.jpg")
    return tmp_path


def test_a_folder_of_images_replaces_the_shipped_textures(folder):
    library = AssetLibrary({"textures": folder})
    textured = RandomMaterial(texturing="textured", variation="$n")
    drawn = [draw(textured, inputs(n=n), library=library) for n in range(400)]
    labels, counts = np.unique([material.label for material in drawn], return_counts=True)
    assert labels.tolist() == [f"{one}/{one}_{n:04d}" for one in ("banded", "dotted") for n in (2, 4)]
    assert ((counts - 100) ** 2 / 100).sum() < 21.2  # 3 degrees of freedom, once in ten thousand
    assert all(material.image and material.color_a is None for material in drawn)
    # Offset and scale are those that a procedural texture of the same stream has.
    shipped = draw(textured, inputs(n=3))
    assert (drawn[3].offset, drawn[3].scale) == (shipped.offset, shipped.scale)
    # Shipped textures can be named together with images.
    named = RandomMaterial(texturing="textured", textures=("wood",))
    assert draw(named, inputs(), library=library).label == "wood"


def test_wrong_images_are_refused_in_the_plan(folder, tmp_path):
    textured = RandomMaterial(texturing="textured", textures=("banded/banded_0002",))
    (folder / "images/banded/banded_0002.jpg").write_bytes(b"\xff\xd8\xff no picture")
    with refused(r"texture .*banded_0002\.jpg: cannot be read"):
        draw(textured, inputs(), library=AssetLibrary({"textures": folder}))
    (tmp_path / "bare").mkdir()
    bare = AssetLibrary({"textures": tmp_path / "bare"})
    with refused(r"assets\.textures: the folder holds no texture; expected .*images"):
        draw(RandomMaterial(texturing="textured"), inputs(), library=bare)


def test_a_stated_material_names_an_image_without_colours_and_a_pattern_with_two(folder):
    own = replace(inputs(t="dots"), library=AssetLibrary({"textures": folder}))
    image, wood = Material(texture="banded/banded_0002"), Material(texture="wood")
    stated = choose_material(image, "cube", 0, RandomMaterial(), own)
    assert (stated.label, stated.image, stated.color_a) == ("banded/banded_0002", True, None)
    with refused(r"material: `wood` is no image; expected `color_a`"):
        choose_material(wood, "cube", 0, RandomMaterial(), own)
    factor = Material(texture="$t", color_a=(0, 0, 0), color_b=(1, 1, 1))
    assert choose_material(factor, "cube", 0, RandomMaterial(), own).label == "dots"
    both = Material(texture="banded/banded_0002", color_a=(0, 0, 0), color_b=(1, 1, 1))
    with refused(r"`banded/banded_0002` is an image, .*; expected no `color_a`"):
        choose_material(both, "cube", 0, RandomMaterial(), own)


def test_a_stated_surface_takes_values_of_the_sample():
    glass = Material(base_color=(1, 1, 1), transmission=1, roughness="$r", ior="$n")
    made = choose_material(glass, "cube", 0, RandomMaterial(), inputs(r=0.1, n=1.5))
    assert made.surface() == {"roughness": 0.1, "specular": 0.5, "transmission": 1.0, "ior": 1.5}
    plain = choose_material(Material(base_color=(1, 1, 1)), "cube", 0, RandomMaterial(), inputs())
    later = {"metallic", "transmission", "ior"}
    assert later.isdisjoint(plain.model_dump())
    assert later.isdisjoint(Material(base_color=(1, 1, 1)).model_dump())


# ------------------------------------------------------------------------------------------------ parts


def test_own_stands_for_the_colours_of_the_manifest():
    facts = LIBRARY.facts("objects", "finch")["parts"]
    assert choose_material("$m", "finch", 0, RandomMaterial(), inputs(m="own")) == OWN
    painted = choose_part_materials({}, "finch", OWN, inputs())
    assert [part.name for part in painted] == [part["name"] for part in facts]
    assert [list(part.material.base_color) for part in painted] == [part["color"] for part in facts]
    assert {part.material.label for part in painted} == {"rgb"}


def test_parts_follow_the_object_or_take_a_material_of_their_own():
    blue = PlacedMaterial(label="blue")
    stated = Material(base_color=(0.1, 0.2, 0.3))
    painted = choose_part_materials({"beak": "$c", "tail": stated}, "duck", blue, inputs(c="red"))
    made_of = {part.name: part.material for part in painted}
    assert made_of["beak"].label == "red"
    assert made_of["tail"].base_color == (0.1, 0.2, 0.3)
    assert {material.label for name, material in made_of.items() if name not in ("beak", "tail")} == {"blue"}
    assert choose_part_materials({}, "cube", blue, inputs()) == ()


def test_the_texture_of_a_part_is_named():
    fur = Material(texture="fur", color_a=(0, 0, 0), color_b=(1, 1, 1))
    with refused(r"layout\.objects\.parts\.beak\.texture: asset `fur` is not among"):
        choose_part_materials({"beak": fur}, "finch", OWN, inputs())


# ------------------------------------------------------------------------------------------------ floor


def floor(**fields):
    camera = Camera(location=(0, 5, 2), look_at=(0, 0, 0.5))
    return Scene(camera=camera, lights=(Light(),), floor=Floor(**fields))


def test_floors_have_random_materials_without_gloss():
    textured = floor(half_width="$w", random_material=RandomMaterial(texturing="$t"))
    laid = place_floor(textured, inputs(w=2, t="textured"))
    assert laid.half_width == 2.0
    drawn = draw(RandomMaterial(texturing="textured"), inputs(), "floor")
    assert laid.material == drawn.model_copy(update={"specular": 0.0})
    assert drawn != draw(RandomMaterial(texturing="textured"), inputs(), "0")
    assert place_floor(floor(), inputs()).material is None


def test_the_material_of_a_floor_depends_on_a_factor():
    tiles = {"texture": "checker", "color_a": (0, 0, 0), "color_b": (1, 1, 1), "specular": "$s"}
    chosen = floor(material={"choose": "$shape", "among": {"cube": tiles, "cone": "$paint", "torus": None}})
    laid = {
        shape: place_floor(chosen, inputs(shape=shape, s=0.2, paint="#ffffff")).material
        for shape in ("cube", "cone", "torus")
    }
    assert (laid["cube"].label, laid["cube"].specular) == ("checker", 0.2)
    assert laid["cone"] == PlacedMaterial(label="rgb", base_color=(1, 1, 1))
    assert laid["torus"] is None
    assert "material" not in Floor().model_dump()


# ------------------------------------------------------------------------------------------------ absent


def test_attached_parts_are_absent_with_their_bearer_and_own_is_the_colour_of_a_part(monkeypatch):
    names = {"pupil": "eye", "eye": "head", "head": None, "body": None}
    parts = [{"name": name, "color": [0.1, 0.2, 0.3], "attached_to": on} for name, on in names.items()]
    monkeypatch.setattr(AssetLibrary, "facts", lambda *_: {"parts": parts})

    def labels(wanted, material=OWN, **values):
        chosen = choose_part_materials(wanted, "doll", material, inputs(**values))
        return [part.material.label for part in chosen]

    assert labels({"eye": "$eye"}, eye="own") == ["rgb"] * 4
    assert labels({"eye": "$eye"}, eye="absent") == ["absent", "absent", "rgb", "rgb"]
    assert labels({"head": "absent", "pupil": "red"}) == ["absent"] * 3 + ["rgb"]
    # Only named parts are there; a part that is `absent` is none.
    nothing = PlacedMaterial(label="absent")
    assert labels({"body": "own", "$which": "red"}, nothing, which="head") == [
        "absent",
        "absent",
        "red",
        "rgb",
    ]
    assert labels({"body": "own", "$which": "red"}, nothing, which="absent") == ["absent"] * 3 + ["rgb"]
    none = {"first": "absent", "second": "absent"}  # which is no part, named twice
    assert labels({"$first": "own", "$second": "own"}, nothing, **none) == ["absent"] * 4
    with refused("parts: `\\$which` is `body`, which is named already"):
        labels({"body": "own", "$which": "red"}, which="body")
