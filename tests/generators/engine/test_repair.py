"""Repairs, and disks that fail: whatever happened to a folder, it ends as an undisturbed run leaves it."""

import errno
import os
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from candlelight import main
from generators.engine.dataset_description import cannot_write, describe_folder
from generators.engine.group_locks import Claims
from generators.engine.render_plan import render
from generators.engine.repair import ASIDE, drop_replaced, set_aside
from generators.language.load_recipe import load_recipe
from generators.planning.plan import make_plan
from loaders.errors import InputError
from loaders.frames import frame_path
from loaders.verification.checksums import NEXT_SUMS, SUMS
from loaders.verification.verify_frames import verify

pytest.importorskip("distributed")

SMALL = ("image.width=32", "image.height=24")


def leaves(*overrides, count=8):
    return make_plan(load_recipe("dead-leaves", [*SMALL, *overrides]), count)


@pytest.fixture(scope="module")
def plan():
    return leaves()


@pytest.fixture(scope="module")
def whole(plan, tmp_path_factory):
    """Paint a few leaves; nobody changes these."""
    out = tmp_path_factory.mktemp("whole") / "frames"
    assert render(plan, out, workers=1).written == 8
    return out


@pytest.fixture
def out(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "frames")


def tree(out):
    """List what is in a folder, with the bytes of its files."""
    return {p.relative_to(out).as_posix(): p.read_bytes() if p.is_file() else None for p in out.rglob("*")}


def folders(plan, out):
    return [frame_path(out, sample.set, sample.index) for sample in plan.samples]


def flip(file, rng):
    data = bytearray(file.read_bytes())
    data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    file.write_bytes(data)


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_whatever_is_damaged_is_rendered_again_to_the_same_bytes(plan, whole, out):
    first, second, third, fourth, *others = folders(plan, out)
    rng = np.random.default_rng(11)
    for name in ("image.png", "layers.npz", "metadata.json", SUMS):
        flip(first / name, rng)
    (second / "layers.npz").unlink()
    third.rename(out / "aside")
    fourth.rename(third)
    (out / "aside").rename(fourth)
    shutil.rmtree(others[0])
    kept = {folder: folder.stat().st_ino for folder in others[1:]}
    outcome = render(plan, out, workers=1, repair=True)
    assert (outcome.damaged, outcome.damaged_besides, outcome.found, outcome.written) == (4, 0, 3, 5)
    assert tree(out) == tree(whole)
    assert {folder: folder.stat().st_ino for folder in kept} == kept


def test_a_repair_that_was_killed_is_finished_by_any_run(plan, whole, out):
    for folder in folders(plan, out)[:2]:
        (folder / "image.png").write_bytes(b"damaged")
    assert set_aside(plan, out) == (2, 0)
    # Nothing is lost before its replacement is there.
    assert [file.read_bytes() for file in out.glob(f"{ASIDE}/**/image.png")] == [b"damaged"] * 2
    drop_replaced(out)
    assert len(list(out.glob(f"{ASIDE}/**/image.png"))) == 2
    outcome = render(plan, out, workers=1)
    assert (outcome.found, outcome.written) == (6, 2)
    assert tree(out) == tree(whole)


def test_a_sample_that_was_damaged_twice_is_set_aside_twice(plan, out):
    file = folders(plan, out)[0] / "image.png"
    for text in ("first", "second"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        assert set_aside(plan, out) == (1, 0)
    assert [found.read_text() for found in out.glob(f"{ASIDE}/**/image.png")] == ["second"]


def test_what_the_plan_does_not_hold_is_left_alone(plan, whole, out):
    for folder in folders(plan, out)[:3]:
        (folder / "image.png").unlink()
    outcome = render(replace(plan, samples=plan.samples[2:5]), out, workers=1, repair=True)
    assert (outcome.damaged, outcome.damaged_besides, outcome.found, outcome.written) == (1, 2, 2, 1)
    assert not verify(out).missing
    assert render(plan, out, workers=1, repair=True).damaged == 2
    assert tree(out) == tree(whole)


@pytest.mark.parametrize("name", ["dataset.json", "plan.parquet"])
def test_a_damaged_description_is_refused_and_repaired(plan, whole, out, name):
    rng = np.random.default_rng(12)
    for _ in range(5):
        flip(out / name, rng)
        with pytest.raises(InputError, match=rf"{name} differs .*`candlelight render RECIPE --repair --out"):
            describe_folder(plan, out)
        describe_folder(plan, out, repair=True)
        assert tree(out) == tree(whole)


def test_sums_that_are_lost_or_hold_too_much_are_written_again(plan, whole, out):
    (out / SUMS).unlink()
    describe_folder(plan, out)
    assert tree(out) == tree(whole)
    with (out / SUMS).open("a") as sums:
        sums.write("more\n")
    describe_folder(plan, out)
    assert tree(out) == tree(whole)
    rng = np.random.default_rng(13)
    for _ in range(9):
        flip(out / SUMS, rng)
        describe_folder(plan, out, repair=True)
        assert tree(out) == tree(whole)


def test_a_run_killed_while_it_described_the_folder_is_finished_by_the_next(plan, whole, out):
    shutil.copy(out / SUMS, out / NEXT_SUMS)
    (out / SUMS).write_text("")
    describe_folder(replace(plan, samples=plan.samples[:1]), out)
    assert tree(out) == tree(whole)


def test_what_other_runs_planned_survives_the_repair_of_the_other_file(plan, whole, out):
    (out / "dataset.json").unlink()
    describe_folder(replace(plan, samples=plan.samples[:1]), out, repair=True)
    assert tree(out) == tree(whole)


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_text("{")])
def test_frames_of_another_recipe_are_refused_even_if_the_folder_does_not_say_so(plan, out, damage):
    damage(out / "dataset.json")
    before = tree(out)
    with pytest.raises(InputError, match=r"holds frames of another recipe \(dead-leaves, "):
        render(leaves("seed=1"), out, workers=1, repair=True)
    assert tree(out) == before
    # Not even when nothing but the samples is left.
    for name in ("plan.parquet", "dataset.json", SUMS):
        (out / name).unlink(missing_ok=True)
    with pytest.raises(InputError, match=r"holds frames of another recipe"):
        describe_folder(leaves("seed=1"), out, repair=True)
    with pytest.raises(InputError, match=r"if it is one that lost its dataset\.json, add --repair"):
        describe_folder(plan, out)


def test_the_commands_find_name_and_repair(whole, out):
    result = run("info", out, "--verify")
    assert (result.exit_code, result.stdout) == (
        0,
        f"{out}: 8 samples checked, 0 files damaged, 0 samples missing\n",
    )
    folder = sorted(out.glob("samples/*/*/*"))[0]
    with (folder / "image.png").open("ab") as file:
        file.write(b"x")
    result = run("info", out, "--verify")
    assert result.exit_code == 1
    assert f"damaged: {folder / 'image.png'}: differs from its line in SHA256SUMS\n" in result.stdout
    assert result.stdout.endswith(f"render what is damaged anew: candlelight render --repair --out {out}\n")
    result = run("render", "--repair", "--out", out, "--workers", "1")
    assert result.exit_code == 0, result.output
    assert "1 frames were damaged and rendered again\n" in result.stdout
    assert tree(out) == tree(whole)


def test_a_repair_without_a_recipe_needs_the_plan(out, tmp_path):
    result = run("render", "--out", out)
    assert result.exit_code == 2
    assert "Missing argument 'RECIPE'; only --repair does without." in result.output
    flip(out / "plan.parquet", np.random.default_rng(14))
    for folder, why in ((out, "differs from its line in SHA256SUMS"), (tmp_path / "none", "is missing")):
        result = run("render", "--repair", "--out", folder)
        assert result.exit_code == 2
        line = (
            f"{folder}/plan.parquet {why}; name the recipe: candlelight render RECIPE --repair --out {folder}"
        )
        assert result.output == f"Error: {line}\n"
    result = run("info", out, "--verify")
    assert result.exit_code == 1
    assert result.stdout.endswith(f"candlelight render RECIPE --repair --out {out}\n")


# -------------------------------------------------------------------------------------- disks that fail


@pytest.mark.parametrize("after", ["nothing", "an empty folder"])
def test_a_folder_that_vanishes_ends_the_run_and_the_frames_are_whole_where_they_went(
    plan, whole, tmp_path, after
):
    out = tmp_path / "frames"

    def vanish(count):
        if count and out.exists() and not (tmp_path / "moved").exists():
            out.rename(tmp_path / "moved")
            if after == "an empty folder":
                out.mkdir()

    with pytest.raises(InputError, match=r"frames: was moved, removed or replaced while .*run again") as e:
        render(plan, out, workers=1, advance=vanish)
    assert "\n" not in str(e.value)
    moved = tmp_path / "moved"
    assert not verify(moved).damaged
    if after == "nothing":
        assert not out.exists()
        outcome = render(plan, moved, workers=1)
        assert outcome.found >= 1
        assert tree(moved) == tree(whole)


def test_a_full_disk_ends_the_run_and_the_next_goes_on(plan, whole, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "none", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        with pytest.raises(InputError, match=r"No space left on device.*finished samples are whole") as e:
            render(plan, disk / "frames", workers=1)
        assert "\n" not in str(e.value)
        assert not verify(disk / "frames").damaged
        subprocess.run(["mount", "-o", "remount,size=2m", disk], check=True)
        assert render(plan, disk / "frames", workers=1).found >= 1
        assert tree(disk / "frames") == tree(whole)
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("name", [".lock", ".claims", "samples"])
def test_files_in_the_way_are_named(plan, tmp_path, name):
    if name == "samples":
        describe_folder(plan, tmp_path)
        (tmp_path / name).touch()
    else:
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=rf"output folder {tmp_path}: .*{name}") as e:
        render(plan, tmp_path, workers=1)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (errno.ENOSPC, "No space left on device; make room or name another"),
        (errno.EDQUOT, "Disk quota exceeded; make room or name another"),
        (errno.EROFS, "Read-only file system; name another"),
        (errno.EEXIST, "it is no folder; name another"),
    ],
)
def test_what_keeps_a_folder_from_being_written(tmp_path, code, line):
    error = OSError(code, os.strerror(code), str(tmp_path / "x"))
    assert str(cannot_write(tmp_path, error)) == f"output folder {tmp_path}: cannot be written: {line}"


def test_names_that_are_too_long_are_told(plan, tmp_path):
    with pytest.raises(InputError, match="cannot be written: File name too long; name another"):
        render(plan, tmp_path / ("x" * 300), workers=1)


def test_claims_do_not_make_a_folder_anew(tmp_path):
    with pytest.raises(FileNotFoundError):
        Claims(tmp_path / "none")


def test_links_are_not_followed(plan, whole, out, tmp_path):
    """A folder of frames that a link of that name leads to keeps its samples."""
    other = shutil.copytree(whole, tmp_path / "other")
    (out / ASIDE).symlink_to("../other")
    render(plan, out, workers=1)
    (folders(plan, out)[0] / "image.png").unlink()
    with pytest.raises(InputError, match=r"\.damaged: expected a folder without links, for damaged samples"):
        render(plan, out, workers=1, repair=True)
    assert tree(other) == tree(whole)
