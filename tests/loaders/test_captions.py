"""Captions: words from factors and objects, templates, every form of data that holds them, pairs."""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest

from candlelight.loaders import (
    FrameFolder,
    HDF5Frames,
    HubFrames,
    caption,
    caption_pair,
    collate,
    counterfactual_pairs,
    open_frames,
    pack_hdf5,
    pack_hub,
    read_captions,
)
from candlelight.loaders.captions import _COLOURS, check_caption, colour_word
from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import InputError
from candlelight.loaders.frames import write_dataset_info
from candlelight.loaders.hdf5.hdf5_datasets import columns_sha256, write_attribute
from candlelight.loaders.schema import EnvironmentRecord, FactorInfo
from candlelight.loaders.verification.verify_pack import verify_pack
from tests.loaders.edits import edit_json, renew_hashes

OBJECT = {"area": 9, "parts": ()}


def described(make_frame, info, objects=(), scene=None, factors=None, template=""):
    """Caption a frame of set `free` with some of its fields changed."""
    metadata = make_frame("free", 2).metadata
    records = tuple(metadata.objects[0].model_copy(update={**OBJECT, **one}) for one in objects)
    changes = {"objects": records, "factors": {**metadata.factors, **(factors or {})}}
    if scene:
        changes["environment"] = EnvironmentRecord(scene=scene)
    set_info = info.sets["free"].model_copy(update={"caption": template})
    return caption(metadata.model_copy(update=changes), set_info)


RGB = {"material": "rgb", "type": "cube"}
BRICKS = {"material": "bricks", "base_color": None, "type": "vase"}


@pytest.mark.parametrize(
    ("objects", "scene", "factors", "expected"),
    [
        ([{**RGB, "material": "orange"}], "big_hall", {}, "an orange cube in a big hall scene, shape torus"),
        ([RGB, RGB, BRICKS], None, {"shape": "none"}, "two red cubes and a bricks-textured vase"),
        ([RGB, {**RGB, "area": 0}], "indoor", {"shape": "cube"}, "a red cube in an indoor scene"),
        ([{**BRICKS, "material": "own"}, {**RGB, "area": 0}], None, {}, "a vase, shape torus"),
        ([{**RGB, "type": "a.py:big_knot"}] * 3, None, {"shape": "shape_b"}, "three red big knots, shape b"),
        ([], None, {"shape": "css:teal"}, "free, shape teal"),
        ([RGB], None, {"shape": "css:red"}, "a red cube"),
    ],
)  # fmt: skip
def test_default_words(make_frame, info, objects, scene, factors, expected):
    assert described(make_frame, info, objects, scene, factors) == f"{expected}, angle 25 degree"


def test_numbers_have_three_digits_and_listed_ones_all(make_frame, info):
    for angle, text in (
        *((25.04, "25"), (0.0123456, "0.0123"), (4322.84, "4323"), (-1.5, "-1.5"), (7, "7")),
        *((999.4, "999"), (-999.6, "-1000")),
    ):
        assert described(make_frame, info, factors={"angle": angle}).endswith(f"angle {text} degree")
    size = FactorInfo(name="size", kind="categorical", values=(1.002, 1.004))
    set_info = info.sets["grid"].model_copy(update={"factors": (size,)})
    metadata = make_frame().metadata.model_copy(update={"factors": {"size": 1.002}, "objects": ()})
    assert caption(metadata, set_info) == "grid, size 1.002"


def test_one_word_does_not_stand_for_two_factors(make_frame, info):
    made = make_frame("free", 2).metadata
    cube = made.objects[0].model_copy(update={**OBJECT, **RGB})
    factors = tuple(FactorInfo(name=name, kind="categorical", values=("red", "blue")) for name in ("a", "b"))
    set_info = info.sets["free"].model_copy(update={"factors": factors})

    def captioned(a, b, objects):
        changes = {"factors": {"a": a, "b": b}, "objects": (cube,) * objects}
        return caption(made.model_copy(update=changes), set_info)

    assert captioned("red", "blue", 1) == "a red cube, b blue"
    assert captioned("red", "red", 1) == "a red cube, a red, b red"
    assert captioned("red", "red", 2) == "two red cubes"


def test_templates_are_filled(make_frame, info):
    template = "{{{objects}}}: a {shape} turned by {angle:.1f}, {angle}"
    assert described(make_frame, info, [RGB], template=template) == "{a red cube}: a torus turned by 25.0, 25"
    for shape, article in (("orange_cone", "an orange cone"), ("unicorn", "a unicorn"), ("11", "an 11")):
        assert described(make_frame, info, [RGB], factors={"shape": shape}, template="a {shape}") == article
    assert described(make_frame, info, template="{objects}") == ""
    with pytest.raises(InputError, match="`form` is no factor of this set"):
        described(make_frame, info, template="{form}")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("a {colour}", "caption: `colour` is no factor of this set; did you mean `color`?"),
        ("{color.real}", "caption: `color.real` is no factor of this set; did you mean `color`?"),
        ("{}", "caption: `` is no factor of this set"),
        ("{size:99999999}", "caption: expected {size} or {size:.2f}, got {size:99999999}"),
        ("{size!r}", "caption: expected {size} or {size:.2f}, got {size!r}"),
        ("{object}", "caption: `object` is no factor of this set; did you mean `objects`?"),
        ("{objects:.1f}", "caption: expected {objects} without a format"),
        ("{size", "caption: expected names in braces, got '{size'"),
    ],
)
def test_wrong_templates_are_refused(template, message):
    with pytest.raises(InputError) as caught:
        check_caption(template, ["color", "size"])
    assert str(caught.value).startswith(message)


def test_colours_have_the_words_of_their_hues():
    bright = [colour_word(tuple(np.array(rgb) * 0.8)) for rgb in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0))]
    assert bright == ["red", "green", "blue", "yellow"]
    assert [colour_word((x, x, x)) for x in (0.001, 0.2, 0.95)] == ["black", "gray", "white"]
    assert colour_word((0.18, 0.06, 0.02)) == "brown"
    assert colour_word((0.0, 0.28, 0.67)) == colour_word((0.13, 1.0, 1.0)) == "blue"


def test_colours_have_the_words_that_people_give_them():
    """In the colour survey of xkcd (2010), 566 names end in a basic term: "dusty rose pink"."""
    colors = pytest.importorskip("matplotlib.colors").XKCD_COLORS
    synonyms = {"grey": "gray", "violet": "purple"}
    named = {name: synonyms.get(name.split()[-1], name.split()[-1]) for name in colors}
    terms = [(colors[name], term) for name, term in named.items() if term in _COLOURS]
    rgb = np.array([[*bytes.fromhex(value[1:])] for value, _ in terms]) / 255
    found = [colour_word(tuple(one)) for one in srgb_to_linear(rgb)]
    assert len(terms) > 500
    assert np.mean([word == term for word, (_, term) in zip(found, terms, strict=True)]) > 0.79


# ------------------------------------------------------------------------------------------------ packs


@pytest.fixture(scope="module")
def forms(tmp_path_factory, frames_root):
    """Pack the small data set in both forms."""
    out = tmp_path_factory.mktemp("captions")
    pack_hdf5(frames_root, out / "h5")
    pack_hub(frames_root, out / "hub")
    return {"frames": frames_root, "h5": out / "h5", "hub": out / "hub"}


def opened(path, **how):
    """Open set `grid` of any form."""
    return open_frames(path, "grid", layers=["image"], **how)


@pytest.mark.parametrize("form", ["frames", "h5", "hub"])
def test_every_form_has_captions(forms, form):
    frames = opened(forms[form], captions=True)
    expected = [caption(frames.metadata(row), frames.set_info) for row in range(6)]
    assert len(set(expected)) == 6
    assert read_captions(frames) == expected
    assert read_captions(frames, [4, 1]) == [expected[4], expected[1]]
    pytest.importorskip("torch", reason="samples are tensors")
    assert collate([frames[3], frames[0]])["caption"] == [expected[3], expected[0]]
    assert "caption" not in opened(forms[form])[0]


def test_load_dataset_reads_captions(forms, tmp_path):
    datasets = pytest.importorskip("datasets")
    expected = read_captions(opened(forms["frames"]))
    found = datasets.load_dataset(str(forms["hub"]), "grid", split="train", cache_dir=tmp_path)
    assert found.features["caption"] == datasets.Value("string")
    assert found["caption"][:] == read_captions(found) == expected
    pytest.importorskip("datasets.packaged_modules.hdf5", reason="this version reads no HDF5")
    file = str(forms["h5"] / "grid.h5")
    found = datasets.load_dataset("hdf5", data_files=file, split="train", cache_dir=tmp_path)
    assert read_captions(found, [5]) == expected[5:]


def test_packs_do_not_parse_metadata_for_captions(forms, monkeypatch):
    for form in ("h5", "hub"):
        frames = opened(forms[form])
        monkeypatch.setattr(type(frames), "metadata", None)
        assert frames.caption(-1) == read_captions(frames)[5]


def test_smaller_images_have_the_same_captions(forms, frames_root, tmp_path):
    expected = read_captions(opened(frames_root))
    (file,) = pack_hdf5(frames_root, tmp_path, ["grid"], size=(16, 12))
    assert read_captions(HDF5Frames(file)) == expected
    assert (
        read_captions(HubFrames(pack_hub(frames_root, tmp_path / "hub", ["grid"], size=(16, 12)))) == expected
    )


def test_a_changed_template_needs_no_new_frames(frames_copy, info, tmp_path):
    grid = info.sets["grid"].model_copy(update={"caption": "{color}, {size} m"})
    write_dataset_info(frames_copy, info.model_copy(update={"sets": {**info.sets, "grid": grid}}))
    assert FrameFolder(frames_copy, "grid").caption(4) == "blue, 2 m"
    (file,) = pack_hdf5(frames_copy, tmp_path, ["grid"])
    assert read_captions(HDF5Frames(file), [0, 4]) == ["red, 1.5 m", "blue, 2 m"]


def test_packs_without_captions_are_read(forms, tmp_path):
    expected = read_captions(opened(forms["frames"]))
    path = Path(shutil.copy(forms["h5"] / "grid.h5", tmp_path))
    set_info = HDF5Frames(path).set_info
    with h5py.File(path, "r+") as file:
        del file["caption"]
        del file.attrs["sha256"]
        write_attribute(file, "sha256", columns_sha256(file, set_info))
    hub = shutil.copytree(forms["hub"], tmp_path / "hub")
    for shard in hub.glob("*/*.parquet"):
        table = pq.read_table(shard)
        features = json.loads(table.schema.metadata[b"huggingface"])
        del features["info"]["features"]["caption"]
        table = table.drop_columns(["caption"])
        pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(features)}), shard)
    edit_json(hub / "manifest.json", lambda text: None)
    renew_hashes(hub)
    for frames in (HDF5Frames(path), HubFrames(hub, "grid")):
        assert read_captions(frames) == expected
    assert not verify_pack(hub).damaged
    assert not verify_pack(path).damaged


def test_changed_captions_are_damage(forms, tmp_path):
    path = Path(shutil.copy(forms["h5"] / "grid.h5", tmp_path))
    with h5py.File(path, "r+") as file:
        file["caption"][0] = b"a lie"
    (found,) = verify_pack(path).damaged
    assert found.reason == "other columns than layers differ from their hash"


def test_pairs_in_words(causal_packs):
    train, changed = (
        open_frames(causal_packs / "hub", name, layers=["image"]) for name in ("train", "changed")
    )
    pairs = counterfactual_pairs(train, changed)
    found = [caption_pair(pairs, number) for number in range(len(pairs))]
    assert [one.changed for one in found] == [("shape",), ("angle",), ("angle",), ("shape", "angle")]
    assert found[3].before == read_captions(train)[2]
    assert found[3].after == read_captions(changed)[3]
    with pytest.raises(InputError, match="column `caption`, got list"):
        read_captions([{}])
