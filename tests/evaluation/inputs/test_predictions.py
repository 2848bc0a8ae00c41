import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from numpy import ndarray
from PIL import Image

from candlelight.evaluation.run import array_files
from candlelight.evaluation.run.predictions import match_ids, open_codes, open_heatmaps, open_predictions
from candlelight.loaders.files.layer_codecs import encode_png
from tests.loaders.public.copies import write_exr
from tests.refusals import refused

RNG = np.random.default_rng(0)
REFLECTANCE = RNG.random((3, 4, 5), np.float32)
SHADING = RNG.random((1, 4, 5), np.float32)


def save(path: Path, array: ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array)
    return path


def save_both(
    folder: Path, name: str, reflectance: ndarray = REFLECTANCE, shading: ndarray = SHADING
) -> None:
    save(folder / "reflectance" / f"{name}.npy", reflectance)
    save(folder / "shading" / f"{name}.npy", shading)


def equal(found: torch.Tensor, expected: ndarray) -> bool:
    return found.dtype == torch.float32 and torch.equal(found, torch.from_numpy(expected))


def test_npz_by_id_with_folders_in_ids(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    np.savez(tmp_path / "set" / "000.npz", reflectance=REFLECTANCE, shading=SHADING)
    np.savez_compressed(tmp_path / "b.c.npz", reflectance=2 * REFLECTANCE, shading=SHADING, other=SHADING)
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".hidden.npz").touch()
    found = open_predictions(tmp_path)
    assert set(found.ids) == {"set/000", "b.c"}
    assert equal(found.read("set/000")["reflectance"], REFLECTANCE)
    assert equal(found.read("set/000")["shading"], SHADING)
    assert equal(found.read("b.c")["reflectance"], 2 * REFLECTANCE)
    with refused("expected an id of its files, got `set/001`; did you mean `set/000`"):
        found.read("set/001")


@pytest.mark.parametrize(("dtype", "order"), [(np.float16, "C"), (np.float64, "F"), (">f4", "F")])
def test_floats_of_any_kind_and_order(tmp_path: Path, dtype: str, order: str) -> None:
    given = np.asarray(REFLECTANCE, dtype, order=order)
    save_both(tmp_path, "a", given, np.asarray(SHADING, dtype, order=order))
    assert equal(open_predictions(tmp_path).read("a")["reflectance"], given.astype(np.float32))
    np.savez(tmp_path / "a.npz", reflectance=given, shading=SHADING)
    assert np.array_equal(array_files.read_npz(tmp_path / "a.npz", "reflectance")[0], given)


@pytest.mark.parametrize(
    ("reflectance", "shading", "channels"),
    [
        pytest.param(REFLECTANCE, SHADING, 1, id="channels first"),
        pytest.param(REFLECTANCE.transpose(1, 2, 0), SHADING.transpose(1, 2, 0), 1, id="channels last"),
        pytest.param(REFLECTANCE, SHADING[0], 1, id="gray without an axis"),
        pytest.param(REFLECTANCE, np.repeat(SHADING, 3, 0).transpose(1, 2, 0), 3, id="three channels"),
    ],
)
def test_channel_axis_is_moved_to_the_front(
    tmp_path: Path, reflectance: ndarray, shading: ndarray, channels: int
) -> None:
    save_both(tmp_path, "a", reflectance, shading)
    found = open_predictions(tmp_path).read("a")
    assert equal(found["reflectance"], REFLECTANCE)
    assert equal(found["shading"], np.repeat(SHADING, channels, 0))


@pytest.mark.parametrize(
    ("reflectance", "shading", "message"),
    [
        (np.ones((3, 4, 3)), SHADING, r"`a`: reflectance: expected 3 channels first or last, got both in"),
        (
            REFLECTANCE,
            np.ones((1, 4, 3)),
            r"`a`: shading: expected 1 or 3 channels .*, got both in \[1, 4, 3\]",
        ),
        (SHADING, SHADING, r"expected 3 channels first or last, got \[1, 4, 5\]"),
        (SHADING[0], SHADING, r"expected 3 channels first or last, got \[4, 5\]"),
        (REFLECTANCE[None], SHADING, r"got \[1, 3, 4, 5\]"),
        ((255 * REFLECTANCE).astype(np.uint8), SHADING, r"floating-point numbers, got uint8 \[3, 4, 5\]"),
        (REFLECTANCE.astype(complex), SHADING, "got complex128"),
        (np.array([{}]), SHADING, "cannot be read"),
    ],
)
def test_invalid_arrays_give_one_line(
    tmp_path: Path, reflectance: ndarray, shading: ndarray, message: str
) -> None:
    save_both(tmp_path, "a", np.asarray(reflectance), shading)
    with refused(message):
        open_predictions(tmp_path).read("a")


def test_reflectance_without_shading_and_two_files_of_one_id(tmp_path: Path) -> None:
    for name in "abcd":
        save_both(tmp_path, name)
        (tmp_path / "shading" / f"{name}.npy").unlink()
    save_both(tmp_path, "e")
    found = open_predictions(tmp_path)
    assert equal(
        found.read("a", ["reflectance"])["reflectance"], REFLECTANCE
    )  # what is not read may be missing
    with refused("`a`: shading: expected a file for each id, there is none; add it"):
        found.read("a")
    for name in "abcd":
        (tmp_path / "reflectance" / f"{name}.npy").unlink()
    (tmp_path / "shading" / "e.exr").touch()
    with refused(r"expected one file for `e`, there is e.exr too"):
        open_predictions(tmp_path)


def test_folders_without_results(tmp_path: Path) -> None:
    with refused("expected a folder of results, there is none"):
        open_predictions(tmp_path / "nowhere")
    with refused(r"expected files named <id> with .npz; got none"):
        open_predictions(tmp_path)
    (tmp_path / "a.mat").touch()
    with refused(r"expected files named <id> with .npz; got files of `.mat`"):
        open_predictions(tmp_path)
    (tmp_path / "reflectance").mkdir()
    with refused(r"reflectance: expected files named <id> with .npy, .exr, .png; got"):
        open_predictions(tmp_path)


def write_png(path: Path, pixels: ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_png(pixels))


@pytest.mark.parametrize(("dtype", "largest"), [(np.uint8, 255), (np.uint16, 65535)])
def test_png_with_either_curve(tmp_path: Path, dtype: type, largest: int) -> None:
    half = round(0.5 * largest)
    write_png(tmp_path / "reflectance" / "a.png", np.full((4, 5, 3), half, dtype))
    write_png(tmp_path / "shading" / "a.PNG", np.full((4, 5), half, dtype))
    with refused(r"a.png: name the colour space of PNG: `png` srgb or linear"):
        open_predictions(tmp_path).read("a")
    with refused("`png` must be one of: srgb, linear; got sRGB"):
        open_predictions(tmp_path, "sRGB")
    for curve, expected in (("linear", half / largest), ("srgb", ((half / largest + 0.055) / 1.055) ** 2.4)):
        reflectance, shading = open_predictions(tmp_path, curve).read("a").values()
        assert reflectance.shape == (3, 4, 5)
        assert shading.shape == (1, 4, 5)
        assert reflectance.unique().item() == shading.unique().item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("RGBA", "expected gray, RGB or opaque RGBA, got RGBA"),
        ("P", "expected gray, RGB or opaque RGBA, got P"),
        ("L", r"expected 3 channels first or last, got \[4, 5\]"),
    ],
)
def test_png_of_other_kinds_is_refused(tmp_path: Path, mode: str, message: str) -> None:
    write_png(tmp_path / "shading" / "a.png", np.zeros((4, 5), np.uint8))
    path = tmp_path / "reflectance" / "a.png"
    path.parent.mkdir()
    Image.new("RGBA", (5, 4), (255, 0, 0, 255)).save(path)
    assert open_predictions(tmp_path, "linear").read("a")["reflectance"][:, 0, 0].tolist() == [1, 0, 0]
    Image.new(mode, (5, 4)).save(path)
    with refused(message):
        open_predictions(tmp_path, "linear").read("a")


@pytest.mark.skipif(find_spec("OpenEXR") is None, reason="the extra `exr` is not installed")
def test_exr_is_linear(tmp_path: Path) -> None:
    import OpenEXR

    pixels = (4 * REFLECTANCE).transpose(1, 2, 0).copy()
    for name in ("reflectance", "shading"):
        (tmp_path / name).mkdir()
        header = {"compression": OpenEXR.ZIP_COMPRESSION, "type": OpenEXR.scanlineimage}
        OpenEXR.File(header, {"RGB": pixels}).write(str(tmp_path / name / "a.exr"))
    reflectance, shading = open_predictions(tmp_path).read("a").values()
    assert equal(reflectance, 4 * REFLECTANCE)
    assert equal(shading, 4 * REFLECTANCE)


def lie(path: Path, shape: tuple[int, ...]) -> None:
    """Write an npz file whose array header claims another shape than the data have."""
    with zipfile.ZipFile(path, "w") as archive, archive.open("reflectance.npy", "w") as file:
        head = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, head)
        file.write(bytes(64))


@pytest.mark.parametrize("shape", [(3, 10**6, 10**6), (2**40,), (3, 1, 1)])
def test_a_false_header_allocates_no_memory(tmp_path: Path, shape: tuple[int, ...]) -> None:
    lie(tmp_path / "a.npz", shape)
    with refused(r"the header of `reflectance.npy` does not fit its size"):
        array_files.read_npz(tmp_path / "a.npz", "reflectance")


def test_too_many_bytes_and_damaged_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.npy", np.zeros((8, 8)))
    np.savez(tmp_path / "a.npz", a=np.zeros((8, 8)))
    pq.write_table(pa.table({"id": ["a"], "x": [1.0]}), tmp_path / "a.parquet")
    with monkeypatch.context() as patch:
        patch.setattr(array_files, "MAX_BYTES", 64)
        for read in (
            lambda: array_files.read_npy(path),
            lambda: array_files.read_npz(tmp_path / "a.npz", "a"),
            lambda: array_files.read_parquet(tmp_path / "a.parquet"),
        ):
            with refused("expected at most 64 bytes, got"):
                read()
    for name in ("a.npy", "a.npz", "a.parquet"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:100])
    with refused(r"a.npy: cannot be read"):
        array_files.read_npy(path)
    with refused(r"a.npz: cannot be read"):
        array_files.read_npz(tmp_path / "a.npz", "a")
    with refused(r"a.parquet: cannot be read as Parquet"):
        array_files.read_parquet(tmp_path / "a.parquet")


def test_heatmaps(tmp_path: Path) -> None:
    maps = RNG.random((2, 4, 5), np.float32)
    save(tmp_path / "a.npy", maps)
    save(tmp_path / "set" / "b.npy", maps[0].astype(np.float64))
    np.savez(tmp_path / "c.npz", heatmaps=maps)
    write_png(tmp_path / "d.png", np.array([[0, 51], [102, 255]], np.uint8))
    found = open_heatmaps(tmp_path)
    assert set(found.ids) == {"a", "set/b", "c", "d"}
    assert equal(found.read("a"), maps)
    assert equal(found.read("set/b"), maps[:1])
    assert equal(found.read("c"), maps)
    assert equal(found.read("d"), np.array([[[0, 0.2], [0.4, 1]]], np.float32))


def test_batches_of_heatmaps_mark_failures(tmp_path: Path) -> None:
    maps = RNG.random((3, 2, 4, 5), np.float32)
    maps[1, 1, 3, 4] = np.nan
    for name, one in zip("abc", maps, strict=True):
        save(tmp_path / f"{name}.npy", one)
    found = open_heatmaps(tmp_path)
    read, failed = found.read_batch(["c", "b", "missing", "a"])
    assert failed.tolist() == [False, True, True, False]
    assert equal(read[[0, 3]], maps[[2, 0]])
    assert read[1:3].abs().max() == 0
    assert found.read_batch(["missing"])[0].shape == (1, 2, 4, 5)
    save(tmp_path / "b.npy", np.zeros((1, 4, 5)))
    with refused(r"one shape, got \[2, 4, 5\] for `a` and \[1, 4, 5\] for `b`; resize"):
        found.read_batch(["a", "b"])


@pytest.mark.parametrize(
    ("maps", "got"),
    [
        (np.zeros((2, 4, 5), np.int64), r"floating-point numbers, got int64 \[2, 4, 5\]"),
        (np.zeros(4), r"\[maps, h, w\] or \[h, w\], got float32 \[4\]"),
        (np.zeros((0, 4, 5)), r"got float32 \[0, 4, 5\]"),
    ],
)
def test_invalid_heatmaps_give_one_line(tmp_path: Path, maps: ndarray, got: str) -> None:
    save(tmp_path / "a.npy", maps)
    with refused(got):
        open_heatmaps(tmp_path).read("a")


def test_a_coloured_heatmap_is_refused(tmp_path: Path) -> None:
    write_png(tmp_path / "a.png", np.zeros((4, 5, 3), np.uint8))
    with refused(r"expected heatmaps .*, got float32 \[4, 5, 3\]"):
        open_heatmaps(tmp_path).read("a")


CODES = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
IDS = ["a", "b", "c"]


def write_parquet(path: Path, **columns: object) -> None:
    pq.write_table(pa.table(columns), path / "codes.parquet")


def lists_of_one_length() -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(CODES.ravel().astype(np.float32)), 2)


WRITERS: dict[str, Callable[[Path], object]] = {
    "codes.npz": lambda path: np.savez(path / "codes.npz", ids=IDS, codes=CODES.astype(np.float32)),
    "bytes/codes.npz": lambda path: np.savez(
        path / "codes.npz", ids=[name.encode() for name in IDS], codes=CODES.astype(np.int32)
    ),
    "codes.parquet": lambda path: write_parquet(
        path, x=CODES[:, 0], id=IDS, y=pa.array(CODES[:, 1].astype(int))
    ),
    "lists/codes.parquet": lambda path: write_parquet(path, id=IDS, codes=CODES.tolist()),
    "fixed/codes.parquet": lambda path: write_parquet(path, id=IDS, codes=lists_of_one_length()),
}


@pytest.mark.parametrize("name", WRITERS)
def test_codes_are_matched_by_id(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    WRITERS[name](path.parent)
    codes = open_codes(path)
    assert codes.ids == ("a", "b", "c")
    assert codes.matched(["c", "a"], set(IDS)).tolist() == [[5, 6], [1, 2]]
    with refused("1 is missing: `d`"):
        codes.matched(["d", "a"], {*IDS, "d"})
    found = codes.matched(["d", "a"], {*IDS, "d"}, "fail")
    assert found[0].isnan().all()
    assert found[1].tolist() == [1, 2]


def test_codes_without_ids_are_rows_of_the_data(tmp_path: Path) -> None:
    codes = open_codes(save(tmp_path / "codes.npy", np.asfortranarray(CODES)))
    assert codes.ids is None
    assert codes.matched(["x", "y", "z"], ["x", "y", "z"]).tolist() == CODES.tolist()
    with refused(r"expected 2 rows in the order of the data, got 3; .*write npz"):
        codes.matched(["x", "y"], ["x", "y", "z"])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"name": IDS, "x": [1.0, 2.0, 3.0]}, "expected a column `id` and columns of numbers, got"),
        ({"id": IDS}, "expected a column `id` and columns of numbers, got"),
        ({"id": IDS, "x": IDS}, "expected `id` and columns of numbers, got `x`; remove that column"),
        (
            {"id": IDS, "x": [1, 2, 3], "__index_level_0__": [0, 1, 2]},
            "got `__index_level_0__`; remove that column",
        ),
        ({"id": IDS, "codes": [[1.0], [2.0], [3.0, 4.0]]}, "expected `codes` of one length, got 1, 2"),
        ({"id": IDS, "codes": [[1.0], None, [3.0]]}, "expected `codes` of one length, got 1, None"),
        ({"id": IDS, "codes": IDS}, "cannot be read as Parquet"),
        ({"id": ["a", "b", "a"], "x": [1, 2, 3]}, "expected 3 different ids, got 2 in 3"),
        (
            {"id": IDS, "codes": [[[1.0]], [[2.0]], [[3.0]]]},
            "expected `codes` as lists of numbers, got list<",
        ),
    ],
)
def test_invalid_tables_give_one_line(tmp_path: Path, columns: dict[str, object], message: str) -> None:
    write_parquet(tmp_path, **columns)
    with refused(message):
        open_codes(tmp_path / "codes.parquet")


def test_a_number_that_is_missing_in_a_table_is_nan(tmp_path: Path) -> None:
    write_parquet(tmp_path, id=IDS, x=[1, None, 3])
    assert open_codes(tmp_path / "codes.parquet").codes.isnan().flatten().tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"codes": CODES}, "expected an array `ids`, got codes"),
        ({"ids": np.array(IDS, object), "codes": CODES}, "`ids.npy` is pickled, which is refused"),
        ({"ids": np.array(IDS)[:2], "codes": CODES}, "expected 3 different ids, got 2 in 2"),
        ({"ids": CODES[:, 0], "codes": CODES}, r"expected `ids` \[n\], texts or integers, got float64 \[3\]"),
        ({"ids": np.array(IDS), "codes": CODES[:, 0]}, r"expected codes \[n, d\], real numbers, got"),
        ({"ids": np.array(IDS), "codes": CODES[..., None, None]}, r"got float64 \[3, 2, 1, 1\]"),
        ({"ids": np.array(IDS), "codes": CODES.astype(complex)}, "got complex128"),
    ],
)
def test_invalid_npz_files_give_one_line(tmp_path: Path, members: dict[str, ndarray], message: str) -> None:
    np.savez(tmp_path / "codes.npz", **members)
    with refused(message):
        open_codes(tmp_path / "codes.npz")


def test_files_without_codes_are_refused(tmp_path: Path) -> None:
    with refused("expected a file of codes, there is none"):
        open_codes(tmp_path / "codes.npz")
    (tmp_path / "codes.csv").touch()
    with refused(r"expected codes as .npz, .parquet or .npy, got .csv"):
        open_codes(tmp_path / "codes.csv")


def test_ids_are_matched() -> None:
    known = [f"set/{row}" for row in range(6)]
    assert match_ids(known, known[:2], known) == set()
    assert match_ids(known[:1], known[:2], known, "fail") == {"set/1"}
    with refused(
        "^results/net: 4 of 5 results belong to no image of the data: `0`, `1`, `2` and 1 more; "
        "ids of the data look like `set/0`$"
    ):
        match_ids(["0", "1", "2", "3", "set/4"], known[:2], known, "fail", "results/net")
    with refused(
        "^results/net: expected a result for each of 4 images, 4 are missing: `set/0`, `set/1`, `set/2` "
        r"and 1 more; add them, or count them as failed \(`missing` fail\)$"
    ):
        match_ids([], known[:4], known, source="results/net")
    with refused("`missing` must be one of: error, fail; got fial; did you mean `fail`"):
        match_ids(known, known, known, "fial")


def test_pictures_of_layers_of_one_channel(tmp_path: Path) -> None:
    """Files may have one channel, or three that are equal; colours that are not read need no curve."""
    depth = SHADING[0] + 3
    write_exr(tmp_path / "depth" / "z.exr", {"Z": depth})
    write_exr(tmp_path / "depth" / "y.exr", {"Y": depth})
    write_exr(tmp_path / "depth" / "rgb.exr", np.repeat(depth[..., None], 3, 2))
    write_exr(tmp_path / "depth" / "colour.exr", np.moveaxis(REFLECTANCE, 0, 2))
    write_png(tmp_path / "roughness" / "gray.png", np.full((4, 5, 3), 51, np.uint8))
    write_png(tmp_path / "albedo" / "gray.png", np.full((4, 5, 3), 51, np.uint8))
    found = open_predictions(tmp_path)
    for name in ("z", "y", "rgb"):
        assert equal(found.read(name, ["depth"])["depth"], depth[None])
    assert found.read("gray", ["roughness"])["roughness"].unique().tolist() == pytest.approx([0.2])
    with refused(r"depth: expected 1 channels first or last, got \[4, 5, 3\]"):
        found.read("colour", ["depth"])


def test_any_subset_of_layers(tmp_path: Path) -> None:
    save(tmp_path / "npy" / "albedo" / "a.npy", REFLECTANCE)
    save(tmp_path / "npy" / "depth" / "b.npy", SHADING[0])
    write_png(tmp_path / "npy" / "normal" / "a.png", np.full((4, 5, 3), (0, 51, 255), np.uint8))
    (tmp_path / "npz").mkdir()
    np.savez(tmp_path / "npz" / "a.npz", albedo=REFLECTANCE, depth=SHADING[0], normal=2 * REFLECTANCE)
    found, packed = (open_predictions(tmp_path / name) for name in ("npy", "npz"))
    for one in (found, packed):
        assert list(one.read("a")) == ["reflectance"]
        assert equal(one.read("a")["reflectance"], REFLECTANCE)
        assert one.read("a", ["roughness"]) == {}
    torch.testing.assert_close(found.read("a", ["normal"])["normal"][:, 0, 0], torch.tensor([-1, -0.6, 1]))
    assert equal(found.read("b", ["depth"])["depth"], SHADING)
    assert equal(packed.read("a", ["depth"])["depth"], SHADING)
    with refused("`a`: depth: expected a file for each id, there is none; add it"):
        found.read("a", ["depth"])
    save(tmp_path / "npy" / "reflectance" / "a.npy", REFLECTANCE)
    with refused("expected one of the folders albedo and reflectance, got both"):
        open_predictions(tmp_path / "npy")
