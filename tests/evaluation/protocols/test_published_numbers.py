"""Numbers of the records and pages that follow from other printed numbers are computed again.

The published tables that were read have no means of reflectance and shading, of two folds or of single
objects. The rest is counts, ratios, and means of tables of this package.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from candlelight.evaluation.intrinsic.benchmark_methods import GRADIENT_METHODS
from candlelight.evaluation.intrinsic.judgements import saw_thresholds
from candlelight.evaluation.intrinsic.protocol_records import MAW_TABLE, PROTOCOLS, published_beside
from candlelight.evaluation.run.result import MeanResult, Provenance
from candlelight.loaders.public.mit import MIT_SPLITS

DOCS = Path(__file__).parents[3] / "docs"
RUNS = (DOCS / "intrinsic.md", DOCS / "evaluation.md", DOCS / "protocols.md")
BENCHMARKS = (DOCS / "benchmarks.md").read_text(encoding="utf-8")


def numbers(text: str) -> list[float]:
    """Read the numbers of a text, with commas between thousands."""
    return [float(one.replace(",", "")) for one in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", text)]


def test_split_of_iiw_is_every_fifth_photograph() -> None:
    test, every = numbers(PROTOCOLS["iiw-whdr"].files)
    assert test == len(range(0, int(every), 5))


def test_threshold_of_gamma_encoded_values_in_linear_light() -> None:
    record = PROTOCOLS["iiw-gamma"]
    ratio, linear = numbers(record.window)
    power, one, gamma = numbers(record.colour_space)
    assert linear == pytest.approx(ratio ** (1 / power), abs=5e-4)
    assert power == pytest.approx(one / gamma, abs=5e-5)


def test_thresholds_of_saw() -> None:
    window = PROTOCOLS["saw"].window
    count, low, high = re.search(r"(\d+) thresholds, log ([\d.]+) to log ([\d.]+)", window).groups()
    made = saw_thresholds("cgintrinsics2018")
    assert len(made) == int(count)
    assert np.exp(made[[0, -1]]) == pytest.approx([float(low), float(high)])


def test_frames_of_sintel() -> None:
    """Sequences have 50 frames, one has 40; the lists without defects lack a sequence of each half."""
    test, train, fewer = numbers(PROTOCOLS["sintel"].files)
    assert (test, train) == (9 * 50, 8 * 50 + 40)
    assert numbers(PROTOCOLS["sintel-crefnet"].files) == [fewer, train - 50] == [test - 50, train - 50]


def test_captures_of_stanford_orb() -> None:
    captures, objects, *_ = numbers(PROTOCOLS["stanford-orb"].files)
    assert captures == 3 * objects


def test_objects_of_mit() -> None:
    assert numbers(PROTOCOLS["mit-grosse"].files)[0] == len(MIT_SPLITS["grosse"])
    assert numbers(PROTOCOLS["mit-barron"].files)[0] == len(MIT_SPLITS["barron-test"])
    barron = {*MIT_SPLITS["barron-test"], *MIT_SPLITS["barron-train"]}
    assert barron == {*MIT_SPLITS["grosse"], *MIT_SPLITS["extra"]}


def about_data(layout: str, split: str, rows: int, groups: int = 1) -> MeanResult:
    data = {"name": "data", "layout": layout, "split": split, "rows": rows}
    ids = tuple(map(str, range(groups)))
    about = Provenance("any", 1, "lower", {"name": "net"}, data, {}, {})
    return MeanResult(about, ids, ids, {"any": (0.5,) * groups}, ())


def test_published_scores_stand_beside_own_ones_of_the_same_protocol_data_and_rows_alone() -> None:
    def beside(protocol: str, *data) -> dict[str, dict[str, float]]:
        return published_beside(PROTOCOLS[protocol], about_data(*data))

    assert beside("iiw-gamma", "iiw", "test", 1046) == {
        "BigTime (published, CSM Table 1)": {"whdr": 0.203},
        "CGIntrinsics (published, CSM Table 1)": {"whdr": 0.148},
    }
    assert beside("saw-challenge", "saw", "test", 1699) == {
        "CGIntrinsics (published, CSM Table 1)": {"saw_ap": 0.9793}
    }
    captures = beside("stanford-orb", "stanford-orb", "full", 420, 42)
    assert len(captures) == 9
    assert captures["SIRFS (published, its repository)"] == {"psnr_reflectance": 37.9}
    for other in (
        *(("iiw-gamma", "iiw", "test", 100), ("iiw-gamma", "iiw", "all", 1046)),
        *(("iiw-gamma", "frames", "test", 1046), ("iiw-whdr", "iiw", "test", 1046)),
        *(("saw", "saw", "test", 1699), ("stanford-orb", "stanford-orb", "light", 70, 7)),
    ):
        assert beside(*other) == {}


def test_published_scores_are_of_known_columns_and_methods() -> None:
    for record in PROTOCOLS.values():
        for published in record.published:
            if published.sure is not None:
                assert published.sure.column[0] == record.columns[0]
                assert {*published.sure.methods} <= {row[0] for row in published.rows}
                assert "third party" not in published.reading


def test_third_party_repeats_maw_within_fifteen_percent() -> None:
    intensity, chromaticity = (float(value) for value in re.findall(r"\d*\.\d{3}", MAW_TABLE.remark))
    (published,) = [row[1:] for row in MAW_TABLE.rows if row[0] == "Ordinal Shading"]
    ratios = intensity / float(published[0]), chromaticity / float(published[1])
    assert ratios == pytest.approx((1.153, 1.049), abs=1e-3)


def test_best_thresholds_of_colour_retinex_are_a_point_of_the_grid() -> None:
    """A published program has T_gray = 1.0 and T_colour = 0.0750, the 22nd point of the grid of 25."""
    gray, colour = GRADIENT_METHODS["COL-RET"].candidates[21]
    assert (round(gray, 4), round(colour, 4)) == (1.0, 0.075)


def test_mean_ranks_of_the_benchmark_sum_to_those_of_seven_methods() -> None:
    table = BENCHMARKS.split("| rendered: LMSE | mean rank |")[1].split("\n\n")[0]
    rows = [row.split("|") for row in table.splitlines()[2:]]
    for column in (3, 6):
        ranks = [float(row[column]) for row in rows if row[column].strip()]
        assert len(ranks) == 7
        assert sum(ranks) == pytest.approx(sum(range(1, 8)), abs=0.04)


def test_lmse_in_the_pages_is_the_mean_of_its_parts() -> None:
    found = 0
    for page in RUNS:
        text = page.read_text(encoding="utf-8")
        for name, value in re.findall(r"^(\S+) +lmse ↓ +([\d.]+)", text, re.MULTILINE):
            found_parts = (
                re.search(rf"^{re.escape(name)} +lmse_{part} ↓ +([\d.]+)", text, re.MULTILINE)
                for part in ("reflectance", "shading")
            )
            parts = [float(one[1]) for one in found_parts if one]
            if len(parts) < 2:  # a table of protocols
                continue
            digits = len(value.lstrip("0.")) - 1
            assert float(value) == pytest.approx(sum(parts) / 2, rel=2 * 10.0**-digits), (page, name)
            found += 1
    assert found >= 3
    row = re.search(
        r"^W\+RET +([\d.]+) .* ([\d.]+) +([\d.]+) +1\.31$", RUNS[0].read_text(encoding="utf-8"), re.M
    )
    total, *parts = map(float, row.groups())
    assert total == pytest.approx(sum(parts) / 2, abs=1e-4)
