"""Each content of each layout opens, or one line names the layouts that have it; rows have ids and groups."""

import numpy as np
import pytest
import torch

from candlelight.evaluation.views import (
    LAYOUTS,
    ConceptSets,
    DataIdentity,
    Decompositions,
    Factors,
    Images,
    Judgements,
    Parts,
    RatedPairs,
    Regions,
    open_data,
)
from candlelight.loaders.colour import linear_to_srgb
from candlelight.loaders.public import CUB200, Candle, CelebAMaskHQ, MITIntrinsic, MultiIllumination, Shapes3D
from tests.loaders.public.copies import READERS, write_exr
from tests.refusals import refused

pytestmark = pytest.mark.usefixtures("datasets")

DECOMPOSED = {"mit", "arap", "hypersim", "sintel", "midintrinsics"}
ALBEDO_ALONE = {"interiorverse", "stanford-orb"}
HAVE = {
    "decompositions": {"frames", *DECOMPOSED, *ALBEDO_ALONE},
    "concepts": {"frames", "mit", "arap", "multi-illumination", "photometric-stereo"},
    "parts": {"frames", "cub70", "celebamask"},
    "factors": {"frames", "cub70", "celebamask", "dsprites", "mpi3d", "shapes3d", "candle", "tid2013"},
    "regions": {"frames", "maw", "multi-illumination"},
    "judgements": {"frames", "iiw", "saw"},
    "pairs": {"tid2013"},
    "images": {"frames", *LAYOUTS},
}


KINDS = {
    **{"decompositions": Decompositions, "concepts": ConceptSets, "parts": Parts, "factors": Factors},
    **{"regions": Regions, "judgements": Judgements, "pairs": RatedPairs, "images": Images},
}
NOUNS = {"concepts": "concept sets", "pairs": "rated pairs"}
SPLITS = {
    "mit": "all, set1, set2, extra, grosse, barron-train, barron-test",
    "arap": "all, csm",
    "hypersim": "train, val, test",
    "sintel": "all, train, test, train-nodefect, test-nodefect, folds, folds-nodefect",
    "interiorverse": "train, val, test",
    "stanford-orb": "all, full, light",
    "midintrinsics": "all, train, test",
    "iiw": "all, train, test",
    "saw": "train, val, test",
    "multi-illumination": "all, train, test",
    "cub70": "annotated, train, test",
    "celebamask": "all, train, val, test",
}
LINEAR = DECOMPOSED | ALBEDO_ALONE | {"iiw", "saw", "maw", "multi-illumination", "photometric-stereo"}


@pytest.mark.parametrize("kind", HAVE)
@pytest.mark.parametrize("layout", ["frames", *LAYOUTS])
def test_each_content_opens_or_names_the_layouts_that_have_it(frames_root, open_copy, layout, kind):
    def open_one():
        if layout == "frames":
            return open_data(kind, frames_root, set_name="grid")
        own = {"shading": False} if kind == "decompositions" and layout in ALBEDO_ALONE else {}
        return open_copy(kind, layout, **({"by": "part"} if kind == "parts" else own))

    if layout in HAVE[kind]:
        view = open_one()
        assert isinstance(view, KINDS[kind])
        assert view[0] is not None
        return
    others = [name for name in LAYOUTS if name in HAVE[kind]]
    frames = "frames or " if "frames" in HAVE[kind] else ""
    noun = NOUNS.get(kind, kind)
    layouts = ", ".join(others)
    with refused(rf"`{layout}` has no {noun}; expected {frames}one of the layouts {layouts}\Z"):
        open_one()[0]


# ------------------------------------------------------------------------------------------- splits and sets


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_split_or_set_must_be_named_where_there_are_several(open_copy, layout):
    if layout in SPLITS:
        for split, fault in ((None, r"choose a split \(`split`\)"), ("tset", "split `tset` is not there")):
            with refused(rf"\A{layout}:.*: {fault}; expected one of: {SPLITS[layout]}\Z"):
                open_copy("images", layout, split=split)
    else:
        with refused(rf"`{layout}` has no splits, got 'test'; leave it out\Z"):
            open_copy("images", layout, split="test")
    if layout != "mpi3d":
        with refused(rf"`{layout}` has no sets, got 'one'; leave the set out\Z"):
            open_copy("images", layout, set_name="one")


def test_the_sets_of_mpi3d_are_its_variants(own_copy, open_copy):
    with refused(r"choose a set \(`set_name`\); expected one of: toy, real\Z"):
        open_copy("images", "mpi3d", set_name=None)
    with refused("set `unreal` is not there; expected one of: toy, realistic, real, complex"):
        open_copy("images", "mpi3d", set_name="unreal")
    view = open_data("images", f"mpi3d:{own_copy('mpi3d') / 'mpi3d_real.npz'}")
    assert view.identity == DataIdentity("MPI3D", "mpi3d", "real", None, None)
    assert not torch.equal(view[0], open_copy("images", "mpi3d")[0])


def test_a_split_chooses_rows(open_copy):
    assert open_copy("images", "celebamask", split="test").ids == ("7", "9")
    assert open_copy("images", "saw", split="train").ids == ("54",)
    assert open_copy("images", "arap", split="csm").ids == ("cream_light0", "cream_light1")
    view = open_copy("images", "multi-illumination", split="test")
    assert set(view.groups) == {"everett_kitchen5"}
    assert view.identity == DataIdentity("Multi-Illumination", "multi-illumination", None, "test", None)


# ------------------------------------------------------------------------------------------ rows and colours


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_named_and_chosen(open_copy, layout):
    view = open_copy("images", layout)
    samples = [view.named.reader[row]["id"] for row in range(len(view))]
    if layout in ("dsprites", "mpi3d", "shapes3d"):
        samples = [f"{layout}-{int(name):06d}" for name in samples]
    assert list(view.ids) == samples
    assert view.known_ids == set(view.ids)
    some = open_copy("images", layout, rows=[1, 0], limit=1)
    assert some.ids == view.ids[1:2]
    assert some.groups == view.groups[1:2]
    assert some.known_ids == view.known_ids
    assert torch.equal(some[0], view[1])
    with refused(rf"from 0 to {len(view) - 1} of {layout}:.*, got row {len(view)} of"):
        open_copy("images", layout, rows=[len(view)])


@pytest.mark.parametrize(
    ("layout", "groups"),
    [
        ("mit", ("box", "cup2")),
        ("arap", ("katie", "cream", "cream")),
        ("hypersim", ("ai_001_010", "ai_001_010", "ai_054_007")),
        ("interiorverse", ("L3D187S3", "L3D187S3", "L3D124S8")),
        ("stanford-orb", ("baking_scene001", "baking_scene001", "teapot_scene006")),
        ("midintrinsics", ("everett_kitchen5",) * 25 + ("main_d424-11",) * 25),
        ("maw", ("scene_2", "scene_2", "scene_10")),
        ("multi-illumination", ("everett_kitchen5",) * 25 + ("main_d424-11",) * 25),
        ("photometric-stereo", ("apple",) * 3 + ("gourd1",) * 3),
        ("tid2013", ("i01",) * 4 + ("i02",) * 4),
        ("candle", ("7", "3541")),
    ],
)
def test_groups_of_rows_follow_the_layout(open_copy, layout, groups):
    assert open_copy("images", layout).groups == groups


@pytest.mark.parametrize("layout", LAYOUTS)
def test_images_are_srgb(open_copy, layout):
    view = open_copy("images", layout)
    stored = view.named.reader[1]["image"]
    if layout in LINEAR:
        expected = torch.from_numpy(linear_to_srgb(stored.numpy()))
    else:
        assert stored.dtype == torch.uint8
        expected = (stored.float() / 255).expand(3, -1, -1)
    assert torch.equal(view[1], expected)


def test_readers_of_linear_images_give_equal_views(public_folder, open_copy):
    for layout, kind in {"shapes3d": Shapes3D, "candle": Candle, "celebamask": CelebAMaskHQ}.items():
        linear = open_data("images", kind(public_folder(layout), linear=True))
        torch.testing.assert_close(linear[1], open_copy("images", layout)[1])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_readers_are_opened(public_folder, layout):
    reader = READERS[layout](public_folder(layout))
    view = open_data("images", reader)
    assert view.identity == DataIdentity(LAYOUTS[layout].name, layout)
    assert len(view) == len(reader)
    assert view[0].shape == (3, 4, 6)
    with refused("no split with a reader"):
        open_data("images", reader, split="test")


def test_readers_without_a_view_are_refused(public_folder):
    with refused("MITIntrinsic: `mit` has no factors; expected frames or one of the"):
        open_data("factors", READERS["mit"](public_folder("mit")))
    with refused("or one of candlelight.loaders.public, got CUB200"):
        open_data("images", CUB200(public_folder("cub70")))


def test_compressed_images_are_unpacked_to_the_cache(open_copy, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    open_copy("images", "dsprites")
    assert [path.suffix for path in (tmp_path / "candlelight").iterdir()] == [".npy"]


# ------------------------------------------------------------------------------------------- decompositions


@pytest.mark.parametrize("layout", sorted(DECOMPOSED))
def test_decompositions_are_those_of_the_sample(open_copy, layout):
    view = open_copy("decompositions", layout)
    assert view.explains == "image"
    for sample, item in zip(view.named.reader, view, strict=True):
        assert torch.equal(item.image, sample["diffuse" if layout == "mit" else "image"])
        for name in ("reflectance", "shading", "mask"):
            assert torch.equal(getattr(item, name), sample[name])
        assert item.lights is None


@pytest.mark.parametrize("layout", sorted(ALBEDO_ALONE))
def test_data_of_albedo_alone_are_opened_where_no_shading_is_read(open_copy, layout):
    view = open_copy("decompositions", layout, shading=False)
    for sample, item in zip(view.named.reader, view, strict=True):
        for name in ("image", "reflectance", "mask"):
            assert torch.equal(getattr(item, name), sample[name])
        assert item.shading.shape == (0, 4, 6)
    with refused(
        rf"has no true shading; .*`candlelight evaluate protocols {layout}:PATH`, .*`shading=False`\Z"
    ):
        open_copy("decompositions", layout)


def test_lights_of_mit_are_read_on_request(open_copy):
    view = open_copy("decompositions", "mit", lights=True)
    assert view.identity == DataIdentity("MIT Intrinsic Images", "mit", None, "all", None)
    for sample, item in zip(view.named.reader, view, strict=True):
        assert torch.equal(item.lights, sample["lights"])
        assert torch.equal(item.image, sample["diffuse"])
    with refused(r"\Amit:.*: `mit` takes no `leave_edges`, which is for frames alone; leave it out\Z"):
        open_copy("decompositions", "mit", leave_edges=1)


# -------------------------------------------------------------------------------------------------- concepts


def test_concept_sets_of_mit_are_opened(open_copy, public_folder):
    view = open_copy("concepts", "mit")
    assert (len(view), view.varies) == (20, "illumination")
    assert view.ids[:2] == ("box/light01", "box/light02")
    assert [(one.fixed, one.rows) for one in view.sets] == [
        ({"object": "box"}, tuple(range(10))),
        ({"object": "cup2"}, tuple(range(10, 20))),
    ]
    lights = MITIntrinsic(public_folder("mit"), lights=True)[1]["lights"]
    for light in (3, 9, 0):
        assert torch.equal(view[10 + light], torch.from_numpy(linear_to_srgb(lights[light].numpy())))
    some = open_copy("concepts", "mit", rows="8:12", limit=3)
    assert some.ids == ("box/light09", "box/light10", "cup2/light01")
    assert [one.rows for one in some.sets] == [(0, 1)]
    assert len(some.known_ids) == 20
    whole = open_data("concepts", MITIntrinsic(public_folder("mit"), lights=True))
    assert whole.ids == view.ids
    with refused("expected MITIntrinsic opened with lights=True"):
        open_data("concepts", MITIntrinsic(public_folder("mit")))[0]


def test_concept_sets_of_scenes_under_several_lights(open_copy):
    view = open_copy("concepts", "arap")
    assert [(one.fixed, one.rows) for one in view.sets] == [({"scene": "cream"}, (1, 2))]
    view = open_copy("concepts", "multi-illumination", rows="20:30")
    assert [(one.fixed, len(one.rows)) for one in view.sets] == [
        ({"scene": "everett_kitchen5"}, 5),
        ({"scene": "main_d424-11"}, 5),
    ]
    view = open_copy("concepts", "photometric-stereo")
    assert [one.fixed for one in view.sets] == [{"object": "apple"}, {"object": "gourd1"}]
    assert view.varies == "illumination"
    with refused("expected images of one scene under several lights, got none"):
        open_copy("concepts", "arap", rows=[0, 1])


# ---------------------------------------------------------------------- parts, factors, judgements, and pairs


def test_parts_of_birds_and_faces_are_opened(open_copy):
    birds = open_copy("parts", "cub70", by="part")
    assert birds.ids[0] == "001.Black_footed_Albatross/Albatross_0001_796"
    assert birds[1].label == "001.Black_footed_Albatross"
    assert birds[1].masks.keys() == {"right_wing"}
    assert birds[1].masks["right_wing"].sum() == 2 * 6
    faces = open_copy("parts", "celebamask", by="part")
    assert faces[0].masks.keys() == {"eyes"}  # the groups of the paper do not contain the hat
    assert faces[0].masks["eyes"].sum() == 2 * 6
    assert faces[0].label is None
    for layout in ("cub70", "celebamask"):
        with refused(rf"`{layout}` has only masks of parts; choose by part"):
            open_copy("parts", layout)


@pytest.mark.parametrize("layout", ["dsprites", "mpi3d", "shapes3d", "candle", "tid2013"])
def test_factors_of_chosen_rows_are_opened(open_copy, layout):
    view = open_copy("factors", layout, rows=[1, 0])
    reader = view.named.reader
    assert view.factors == reader.factors
    np.testing.assert_array_equal(view.table, reader.factor_table[[1, 0]])


def test_judgements_of_iiw_and_saw_are_opened(open_copy):
    view = open_copy("judgements", "iiw")
    assert view.origin == "human"
    sample, item = view.named.reader[0], view[0]
    assert torch.equal(item.image, sample["image"])  # linear
    assert torch.equal(item.comparisons.points, sample["points"])
    assert torch.equal(item.comparisons.darker, sample["darker"])
    assert torch.equal(item.comparisons.score, sample["score"])
    assert item.labels is None
    view = open_copy("judgements", "saw")
    sample, item = view.named.reader[1], view[1]
    assert (item.comparisons, view.origin) == (None, "human")
    assert torch.equal(item.labels, sample["labels"])
    assert torch.equal(item.image, sample["image"])


def test_regions_of_maw_are_opened(open_copy):
    view = open_copy("regions", "maw")
    assert view.identity == DataIdentity("Measured Albedo in the Wild", "maw")
    assert view.synthetic is False
    sample, item = view.named.reader[1], view[1]
    for name in ("image", "regions", "colours"):
        assert torch.equal(getattr(item, name), sample[name])
    assert item.regions[1].tolist() == [0, 1, 1, 0, 2, 2]
    assert item.mask is None


def test_regions_of_materials_have_no_colours(open_copy, public_folder):
    view = open_copy("regions", "multi-illumination", rows=[0, 24, 25])
    assert view.groups == ("everett_kitchen5", "everett_kitchen5", "main_d424-11")
    assert [int(view[row].regions.unique()) for row in range(3)] == [1, 1, 2]
    assert view[0].colours is None
    reader = MultiIllumination(public_folder("multi-illumination"), mip=5)
    with refused("expected MultiIllumination opened with materials=True, got a reader"):
        open_data("regions", reader)[0]


def test_photographs_with_regions_are_scaled_down(open_copy):
    whole, small = (open_copy("regions", "maw", longest=longest)[0] for longest in (6, 3))
    assert whole.image.shape == (3, 4, 6)
    assert small.image.shape == (3, 2, 3)
    assert torch.equal(small.regions, whole.regions[1::2, 1::2])
    assert float(small.image.mean()) == pytest.approx(float(whole.image.mean()), abs=0.05)
    assert torch.equal(small.colours, whole.colours)


def test_rated_pairs_of_tid2013_are_opened(open_copy):
    view = open_copy("pairs", "tid2013")
    sample, item = view.named.reader[5], view[5]
    assert torch.equal(item.reference, sample["reference"].float() / 255)
    assert torch.equal(item.distorted, sample["image"].float() / 255)
    assert (item.score, item.deviation) == (5.5, pytest.approx(0.15))


def test_exr_photographs_are_opened(tmp_path):
    for direction in range(25):
        image = np.full((4, 6, 3), direction, np.float32)
        write_exr(tmp_path / "main_kitchen" / f"dir_{direction}_mip4.exr", image)
    view = open_data("images", f"multi-illumination:{tmp_path}", split="train")
    assert view[0].max() == 0
    assert view[7].min() == pytest.approx(1)
