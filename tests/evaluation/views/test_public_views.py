"""Open views of public data sets in the layouts of their archives: values, names, splits."""

import numpy as np
import pytest
import torch
from PIL import Image

from candlelight.evaluation.views import (
    LAYOUTS,
    DataIdentity,
    Decompositions,
    Judgements,
    RatedPairs,
    Regions,
    open_data,
)
from candlelight.loaders.colour import linear_to_srgb, srgb_to_linear
from candlelight.loaders.errors import InputError
from candlelight.loaders.public import (
    ARAP,
    CUB70,
    CUB200,
    IIW,
    MAW,
    MPI3D,
    SAW,
    TID2013,
    Candle,
    CelebAMaskHQ,
    DSprites,
    Hypersim,
    MITIntrinsic,
    MultiIllumination,
    PhotometricStereo,
    Shapes3D,
)

SPLITS = {
    "mit": "all, set1, set2, extra, grosse, barron-train, barron-test",
    "arap": "all, csm",
    "hypersim": "train, val, test",
    "iiw": "all, train, test",
    "saw": "train, val, test",
    "multi-illumination": "all, train, test",
    "cub70": "annotated, train, test",
    "celebamask": "all, train, val, test",
}


def first(array, divisor=255):
    return torch.from_numpy(np.moveaxis(array.astype(np.float32), 2, 0) / np.float32(divisor))


def encoded(linear):
    return torch.from_numpy(linear_to_srgb(linear.numpy()))


# ------------------------------------------------------------------------------------------- splits and sets


@pytest.mark.parametrize("layout", SPLITS)
def test_a_split_must_be_named(open_copy, layout):
    with pytest.raises(
        InputError,
        match=rf"^{layout}:.*: choose a split \(`split`\); expected one of: {SPLITS[layout]}$",
    ):
        open_copy("images", layout, split=None)
    with pytest.raises(InputError, match=rf"split `tset` is not there; expected one of: {SPLITS[layout]}$"):
        open_copy("images", layout, split="tset")


@pytest.mark.parametrize("layout", sorted(LAYOUTS.keys() - SPLITS))
def test_a_split_of_a_layout_without_splits_is_refused(open_copy, layout):
    with pytest.raises(InputError, match=rf"`{layout}` has no splits, got 'test'; leave it out$"):
        open_copy("images", layout, split="test")


@pytest.mark.parametrize("layout", sorted(LAYOUTS.keys() - {"mpi3d"}))
def test_a_set_of_a_layout_without_sets_is_refused(open_copy, layout):
    with pytest.raises(InputError, match=rf"`{layout}` has no sets, got 'one'; leave the set out$"):
        open_copy("images", layout, set_name="one")


def test_the_sets_of_mpi3d_are_its_variants(open_copy, public_folder):
    with pytest.raises(InputError, match=r"choose a set \(`set_name`\); expected one of: toy, real$"):
        open_copy("images", "mpi3d", set_name=None)
    with pytest.raises(
        InputError, match=r"set `unreal` is not there; expected one of: toy, realistic, real, complex"
    ):
        open_copy("images", "mpi3d", set_name="unreal")
    view = open_data("images", f"mpi3d:{public_folder('mpi3d') / 'mpi3d_real.npz'}")
    assert view.identity == DataIdentity("MPI3D", "mpi3d", "real", None, None)
    assert not torch.equal(view[0], open_copy("images", "mpi3d")[0])


def test_a_split_chooses_rows(open_copy):
    assert open_copy("images", "celebamask", split="test").ids == ("7", "9")
    assert open_copy("images", "saw", split="train").ids == ("54",)
    assert open_copy("images", "arap", split="csm").ids == ("cream_light0", "cream_light1")
    view = open_copy("images", "multi-illumination", split="test")
    assert set(view.groups) == {"everett_kitchen5"}
    assert view.identity == DataIdentity("Multi-Illumination", "multi-illumination", None, "test", None)


def test_a_missing_folder_is_refused(tmp_path):
    for layout in LAYOUTS:
        split = SPLITS.get(layout, "").split(", ")[-1] or None
        with pytest.raises(InputError, match=r"is missing; get it from") as caught:
            open_data("images", f"{layout}:{tmp_path / 'nowhere'}", split=split)
        assert "\n" not in str(caught.value)


# -------------------------------------------------------------------------------------------- names of rows


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ids_equal_the_ids_of_the_samples(open_copy, layout):
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
    with pytest.raises(
        InputError, match=rf"from 0 to {len(view) - 1} of {layout}:.*, got row {len(view)} of"
    ):
        open_copy("images", layout, rows=[len(view)])


@pytest.mark.parametrize(
    ("layout", "groups"),
    [
        ("mit", ("box", "cup2")),
        ("arap", ("katie", "cream", "cream")),
        ("hypersim", ("ai_001_010", "ai_001_010", "ai_054_007")),
        ("maw", ("scene_2", "scene_2", "scene_10")),
        ("multi-illumination", ("everett_kitchen5",) * 25 + ("main_d424-11",) * 25),
        ("photometric-stereo", ("apple",) * 3 + ("gourd1",) * 3),
        ("tid2013", ("i01",) * 4 + ("i02",) * 4),
        ("candle", ("7", "3541")),
    ],
)
def test_groups_of_rows_follow_the_layout(open_copy, layout, groups):
    assert open_copy("images", layout).groups == groups


# --------------------------------------------------------------------------------------------------- colours


@pytest.mark.parametrize(
    "layout", ["mit", "arap", "hypersim", "iiw", "saw", "maw", "multi-illumination", "photometric-stereo"]
)
def test_linear_images_are_encoded(open_copy, layout):
    view = open_copy("images", layout)
    linear = view.named.reader[1]["image"]
    assert linear.is_floating_point()
    assert torch.equal(view[1], encoded(linear))
    assert not torch.equal(view[1], linear)


@pytest.mark.parametrize(
    "layout", ["cub70", "celebamask", "dsprites", "mpi3d", "shapes3d", "candle", "tid2013"]
)
def test_8_bit_images_stay_encoded(open_copy, layout):
    view = open_copy("images", layout)
    stored = view.named.reader[1]["image"]
    assert stored.dtype == torch.uint8
    assert torch.equal(view[1], (stored.float() / 255).expand(3, -1, -1))


def test_readers_of_linear_images_give_equal_views(public_folder, open_copy):
    kinds = {"dsprites": DSprites, "shapes3d": Shapes3D, "candle": Candle, "celebamask": CelebAMaskHQ}
    for layout, kind in kinds.items():
        options = {"cache": public_folder("dsprites")} if layout == "dsprites" else {}
        linear = open_data("images", kind(public_folder(layout), linear=True, **options))
        torch.testing.assert_close(linear[1], open_copy("images", layout)[1])


def test_images_are_encoded_and_judged_images_are_linear(open_copy, public_folder):
    with Image.open(public_folder("iiw") / "data" / "116.png") as image:
        pixels = np.asarray(image)
    torch.testing.assert_close(open_copy("images", "iiw")[0], first(pixels))
    expected = first(srgb_to_linear(pixels / 255), 1)
    assert torch.equal(open_copy("judgements", "iiw")[0].image, expected)


# ------------------------------------------------------------------------------------------- decompositions


def test_decompositions_of_mit_are_opened(open_copy):
    view = open_copy("decompositions", "mit", lights=True)
    assert isinstance(view, Decompositions)
    assert (view.ids, view.groups, view.explains) == (("box", "cup2"), ("box", "cup2"), "image")
    assert view.identity == DataIdentity("MIT Intrinsic Images", "mit", None, "all", None)
    for row in range(2):
        sample, item = view.named.reader[row], view[row]
        assert torch.equal(item.image, sample["diffuse"])
        assert torch.equal(item.reflectance, sample["reflectance"])
        assert torch.equal(item.shading, sample["shading"])
        assert item.shading.shape == (1, 4, 6)
        assert torch.equal(item.mask, sample["mask"])
        assert torch.equal(item.lights, sample["lights"])
    assert open_copy("decompositions", "mit")[0].lights is None


def test_only_frames_have_edges_to_leave(open_copy):
    with pytest.raises(
        InputError, match=r"^mit:.*: `mit` takes no `leave_edges`, which is for frames alone; leave it out$"
    ):
        open_copy("decompositions", "mit", leave_edges=1)


def test_decompositions_of_arap_are_opened(open_copy):
    view = open_copy("decompositions", "arap")
    sample, item = view.named.reader[2], view[2]
    for mine, theirs in (("image", "image"), ("reflectance", "reflectance"), ("shading", "shading")):
        assert torch.equal(getattr(item, mine), sample[theirs])
    assert item.mask.all()
    assert view.explains == "image"


def test_decompositions_of_hypersim_are_opened(open_copy):
    view = open_copy("decompositions", "hypersim")
    assert isinstance(view, Decompositions)
    assert view.ids == ("ai_001_010/cam_00_fr0000", "ai_001_010/cam_01_fr0007", "ai_054_007/cam_00_fr0094")
    assert view.identity == DataIdentity("Hypersim", "hypersim", None, "test", None)
    sample, item = view.named.reader[1], view[1]
    for name in ("image", "reflectance", "shading", "mask"):
        assert torch.equal(getattr(item, name), sample[name])
    assert (~item.mask).nonzero().tolist() == [[1, 2], [3, 4]]
    assert (view.explains, item.lights, sample["residual"].shape) == ("image", None, (3, 4, 6))


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
        assert torch.equal(view[10 + light], encoded(lights[light]))
    some = open_copy("concepts", "mit", rows="8:12", limit=3)
    assert some.ids == ("box/light09", "box/light10", "cup2/light01")
    assert [one.rows for one in some.sets] == [(0, 1)]
    assert len(some.known_ids) == 20
    whole = open_data("concepts", MITIntrinsic(public_folder("mit"), lights=True))
    assert whole.ids == view.ids
    with pytest.raises(InputError, match="expected MITIntrinsic opened with lights=True"):
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
    with pytest.raises(InputError, match="expected images of one scene under several lights, got none"):
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
        with pytest.raises(InputError, match=rf"`{layout}` has only masks of parts; choose by part"):
            open_copy("parts", layout)


@pytest.mark.parametrize("layout", ["dsprites", "mpi3d", "shapes3d", "candle", "tid2013"])
def test_factors_of_chosen_rows_are_opened(open_copy, layout):
    view = open_copy("factors", layout, rows=[1, 0])
    reader = view.named.reader
    assert view.factors == reader.factors
    np.testing.assert_array_equal(view.table, reader.factor_table[[1, 0]])
    assert dict(zip([f.name for f in view.factors], view.table[0], strict=True)) == reader[1]["factors"]


def test_compressed_images_are_unpacked_to_the_cache(open_copy, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    open_copy("images", "dsprites")
    assert [path.suffix for path in (tmp_path / "candlelight").iterdir()] == [".npy"]


def test_judgements_of_iiw_and_saw_are_opened(open_copy, public_folder):
    view = open_copy("judgements", "iiw")
    assert isinstance(view, Judgements)
    assert (view.ids, view.origin) == (("116", "54"), "human")
    found = view[0].comparisons
    assert found.points.tolist() == [[[0.1, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.9, 0.5]]]
    assert (found.darker.tolist(), found.score.tolist()) == ([1, 0], [0.5, 0.25])
    assert view[0].labels is None
    view, saw = open_copy("judgements", "saw"), SAW(public_folder("saw"), "test")
    assert (view[0].comparisons, view.origin) == (None, "human")
    assert torch.equal(view[0].labels, saw[0]["labels"])
    assert torch.equal(view[1].image, saw[1]["image"])


def test_regions_of_maw_are_opened(open_copy):
    view = open_copy("regions", "maw")
    assert isinstance(view, Regions)
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
    with pytest.raises(
        InputError, match="expected MultiIllumination opened with materials=True, got a reader"
    ):
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
    assert isinstance(view, RatedPairs)
    sample, item = view.named.reader[5], view[5]
    assert torch.equal(item.reference, sample["reference"].float() / 255)
    assert torch.equal(item.distorted, sample["image"].float() / 255)
    assert (item.score, item.deviation) == (5.5, pytest.approx(0.15))


# --------------------------------------------------------------------------------------------------- readers


def test_readers_are_opened(public_folder):
    folder = public_folder
    readers = {
        "mit": MITIntrinsic(folder("mit")),
        "arap": ARAP(folder("arap")),
        "hypersim": Hypersim(folder("hypersim"), "test"),
        "iiw": IIW(folder("iiw")),
        "saw": SAW(folder("saw"), "test"),
        "maw": MAW(folder("maw")),
        "multi-illumination": MultiIllumination(folder("multi-illumination"), mip=5, directions=(1, 2)),
        "photometric-stereo": PhotometricStereo(folder("photometric-stereo"), ["gourd1"]),
        "cub70": CUB70(folder("cub70"), folder("cub70")),
        "celebamask": CelebAMaskHQ(folder("celebamask")),
        "mpi3d": MPI3D(folder("mpi3d"), "real"),
        "shapes3d": Shapes3D(folder("shapes3d")),
        "candle": Candle(folder("candle"), codes="disentanglement_lib"),
        "tid2013": TID2013(folder("tid2013")),
    }
    for layout, reader in readers.items():
        view = open_data("images", reader)
        assert view.identity == DataIdentity(LAYOUTS[layout].name, layout)
        assert len(view) == len(reader)
        assert view[0].shape == (3, 4, 6)
    with pytest.raises(InputError, match="MITIntrinsic: `mit` has no factors; expected frames or one of the"):
        open_data("factors", readers["mit"])
    with pytest.raises(InputError, match="no split with a reader"):
        open_data("images", readers["iiw"], split="test")
    with pytest.raises(InputError, match=r"or one of candlelight.loaders.public, got CUB200"):
        open_data("images", CUB200(folder("cub70")))


def test_exr_photographs_are_opened(tmp_path):
    openexr = pytest.importorskip("OpenEXR")
    for direction in range(25):
        path = tmp_path / "main_kitchen" / f"dir_{direction}_mip4.exr"
        path.parent.mkdir(exist_ok=True)
        image = np.full((4, 6, 3), direction, np.float32)
        head = {"compression": openexr.ZIP_COMPRESSION, "type": openexr.scanlineimage}
        openexr.File(head, {"RGB": image}).write(str(path))
    view = open_data("images", f"multi-illumination:{tmp_path}", split="train")
    assert view[0].max() == 0
    assert view[7].min() == pytest.approx(1)
