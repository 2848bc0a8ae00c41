import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.errors import InputError
from candlelight.loaders.public.tid2013 import DISTORTIONS, SUBSETS, TID2013

torch = pytest.importorskip("torch")

REFERENCES, TYPES, LEVELS = (1, 2, 25), (1, 11, 13, 17), (1, 2, 3, 4, 5)


def _listed(reference, kind, level):
    """Return the list's spelling, with capitals in some names and suffixes."""
    odd = level == 1 and kind in (1, 11, 13)
    ending = "BMP" if odd and kind != 1 else "bmp"
    return f"{'I' if odd else 'i'}{reference:02d}_{kind:02d}_{level}.{ending}"


def _pixels(*numbers):
    return np.random.default_rng(numbers).integers(0, 256, (6, 8, 3), np.uint8)


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "tid2013"
    for name in ("distorted_images", "reference_images", "metrics_values", "papers"):
        (folder / name).mkdir(parents=True)
    for reference in REFERENCES:
        name = "i25.bmp" if reference == 25 else f"I{reference:02d}.BMP"
        Image.fromarray(_pixels(reference)).save(folder / "reference_images" / name, "BMP")
    grid = [(r, k, n) for r in REFERENCES for k in TYPES for n in LEVELS]
    for r, k, n in grid:
        # File names differ in case from the list.
        name = "I01_13_1.bmp" if (r, k, n) == (1, 13, 1) else f"i{r:02d}_{k:02d}_{n}.bmp"
        Image.fromarray(_pixels(r, k, n)).save(folder / "distorted_images" / name)
    (folder / "distorted_images" / "Thumbs.db").write_bytes(b"\0")
    scores = [f"{9 - n - k / 100:.5f} {_listed(r, k, n)}\n" for r, k, n in grid]
    (folder / "mos_with_names.txt").write_text("".join(scores), newline="\r\n")
    (folder / "mos.txt").write_text("".join(line.split()[0] + "\n" for line in scores))
    (folder / "mos_std.txt").write_text("".join(f"{0.1 + i / 1000:.5f}\n" for i in range(len(grid))))
    values = "".join(f"{i}\n" for i in range(len(grid)))
    (folder / "metrics_values" / "PSNRHVS.txt").write_text(values)
    return folder, grid


def test_items_have_images_scores_and_factors(root):
    data = TID2013(root[0])
    assert len(data) == 60
    for row, (r, k, n) in enumerate(root[1]):
        item = data[row]
        assert item["id"] == f"i{r:02d}_{k:02d}_{n}"
        assert item["index"] == row
        np.testing.assert_array_equal(item["image"], np.moveaxis(_pixels(r, k, n), 2, 0))
        np.testing.assert_array_equal(item["reference"], np.moveaxis(_pixels(r), 2, 0))
        assert item["mos"] == pytest.approx(9 - n - k / 100)
        assert item["mos_std"] == pytest.approx(0.1 + row / 1000)
        assert item["factors"] == {"reference": r - 1, "distortion": k - 1, "level": n - 1}
        assert data.factor_table[row].tolist() == list(item["factors"].values())
    assert data.factors[1].values[TYPES[1] - 1] == "JPEG2000"
    assert len(DISTORTIONS) == 24


def test_subsets_and_metrics(root):
    data = TID2013(root[0])
    assert {root[1][row][1] for row in data.rows("exotic")} == {13, 17}
    assert {root[1][row][1] for row in data.rows("noise")} == {1}
    with pytest.raises(InputError, match="`subset` must be one of: noise, actual"):
        data.rows("odd")
    assert data.metrics["PSNRHVS"][7] == 7
    # The readme's own counts: 125 images of each type.
    assert {name: len(types) for name, types in SUBSETS.items()} == {
        **{"noise": 11, "actual": 11, "simple": 3},
        **{"exotic": 9, "new": 7, "color": 6},
    }


def test_linear_images_are_floats(root):
    item = TID2013(root[0], linear=True)[0]
    assert item["image"].dtype == item["reference"].dtype == torch.float32
    assert 0 <= item["image"].min() <= item["image"].max() <= 1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mos_with_names.txt", "5.5 ../../i01_01_1.bmp\n", r"line 1: expected a score and iRR_TT_L\.bmp"),
        ("mos_with_names.txt", "5.5 i26_01_1.bmp\n", "line 1: expected a score"),
        ("mos_with_names.txt", "nan i01_01_1.bmp\n", "line 1: expected a score"),
        ("mos_with_names.txt", "5,5 i01_01_1.bmp\n", "line 1: expected a score"),
        ("mos_std.txt", "0.1\n", "expected 60 lines, one per image, got 1"),
        ("mos_std.txt", "x\n" * 60, "expected one number in each line"),
        ("metrics_values/PSNRHVS.txt", "1\n", "expected 60 lines"),
    ],
)
def test_damaged_lists_are_refused(root, name, text, message):
    (root[0] / name).write_text(text)
    with pytest.raises(InputError, match=message):
        _ = TID2013(root[0]).metrics


def test_missing_files_are_named(root):
    (root[0] / "distorted_images" / "i02_11_3.bmp").unlink()
    with pytest.raises(InputError, match=r"distorted_images/i02_11_3\.bmp is missing; get it from https"):
        TID2013(root[0])
