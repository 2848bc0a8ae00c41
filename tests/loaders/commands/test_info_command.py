"""The output of ``candlelight info --verify``: all damaged files, some of the others, and a remedy."""

from pathlib import Path

import pytest

from candlelight.loaders.commands.info_command import MOST_NAMED, verdict
from candlelight.loaders.verification.verify_frames import Damage, Findings

ROOT = Path("frames")
IMAGE = Damage(ROOT / "a", ROOT / "a" / "image.png", "is missing")


def test_all_damaged_files_are_named_and_some_of_the_others():
    damaged = tuple(Damage(ROOT, ROOT / f"{i}", "is missing") for i in range(MOST_NAMED + 5))
    ids, strangers = tuple(f"candle-{i:06d}" for i in range(MOST_NAMED + 2)), (ROOT / "x",)
    lines = list(verdict(ROOT, Findings(9, damaged, ids, strangers)))
    assert lines[: MOST_NAMED + 5] == [f"damaged: frames/{i}: is missing" for i in range(MOST_NAMED + 5)]
    assert lines[MOST_NAMED + 5 : 2 * MOST_NAMED + 5] == [f"missing: {id}" for id in ids[:MOST_NAMED]]
    assert lines[2 * MOST_NAMED + 5 :] == [
        "missing: 2 more",
        "belongs to no sample: frames/x",
        f"frames: 9 samples checked, {MOST_NAMED + 5} files damaged, {MOST_NAMED + 2} samples missing",
        "render damaged frames again: candlelight render --repair --out frames",
    ]


@pytest.mark.parametrize(
    ("path", "damaged", "missing", "packed", "remedy"),
    [
        (ROOT, (IMAGE,), (), False, "candlelight render --repair --out frames"),
        (ROOT, (IMAGE,), (), True, "candlelight pack --help"),
        (
            *(ROOT, (Damage(ROOT, ROOT / "plan.parquet", "is missing"),), (), False),
            "candlelight render RECIPE --repair --out frames",
        ),
        (ROOT, (), ("a",), False, "candlelight render frames/plan.parquet --out frames"),
        ("s3://b/f", (IMAGE,), (), False, "candlelight render RECIPE --repair --out COPY, a local copy"),
        ("s3://b/f", (), ("a",), False, "candlelight render RECIPE --out COPY, a local copy"),
    ],
)
def test_the_remedy_is_named(path, damaged, missing, packed, remedy):
    *_, last = verdict(path, Findings(1, damaged, missing, ()), packed)
    assert last.endswith(f": {remedy}")


def test_a_whole_folder_needs_no_remedy():
    assert list(verdict(ROOT, Findings(2, (), (), ()))) == [
        "frames: 2 samples checked, 0 files damaged, 0 samples missing"
    ]
