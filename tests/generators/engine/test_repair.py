"""Repairs, and disks that fail: after any damage a folder ends with the bytes of an undisturbed run."""

import errno
import os
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.generators.engine.dataset_description import describe_folder
from candlelight.generators.engine.output_locks import GroupLocks, cannot_write
from candlelight.generators.engine.render_plan import render
from candlelight.generators.engine.repair import DAMAGED_FOLDER, move_damaged_samples, remove_replaced_samples
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.loaders.errors import InputError
from candlelight.loaders.frames import frame_path
from candlelight.loaders.verification.checksums import NEXT_SUMS, SUMS
from candlelight.loaders.verification.verify_frames import verify

pytest.importorskip("distributed")

SMALL = ("image.width=32", "image.height=24")


def leaves(*overrides, count=8):
    return make_plan(load_recipe("dead-leaves", [*SMALL, *overrides]), count)


@pytest.fixture(scope="module")
def plan():
    return leaves()


@pytest.fixture(scope="module")
def whole(plan, tmp_path_factory):
    """Render a few dead leaves, which no test changes."""
    out = tmp_path_factory.mktemp("whole") / "frames"
    assert render(plan, out, workers=1).written == 8
    return out


@pytest.fixture
def out(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "frames")


def tree(out):
    """Map the paths in a folder to the bytes of files, and to None for folders."""
    return {p.relative_to(out).as_posix(): p.read_bytes() if p.is_file() else None for p in out.rglob("*")}


def folders(plan, out):
    return [frame_path(out, sample.set, sample.index) for sample in plan.samples]


def flip(file, rng):
    data = bytearray(file.read_bytes())
    data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    file.write_bytes(data)


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_damaged_samples_are_rendered_again_to_the_same_bytes(plan, whole, out):
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
    assert (outcome.damaged, outcome.damaged_outside_plan, outcome.found, outcome.written) == (4, 0, 3, 5)
    assert tree(out) == tree(whole)
    assert {folder: folder.stat().st_ino for folder in kept} == kept


def test_any_run_finishes_a_killed_repair(plan, whole, out):
    for folder in folders(plan, out)[:2]:
        (folder / "image.png").write_bytes(b"damaged")
    assert move_damaged_samples(plan, out) == (2, 0)
    # A damaged sample stays until its replacement is complete.
    assert [file.read_bytes() for file in out.glob(f"{DAMAGED_FOLDER}/**/image.png")] == [b"damaged"] * 2
    remove_replaced_samples(out)
    assert len(list(out.glob(f"{DAMAGED_FOLDER}/**/image.png"))) == 2
    outcome = render(plan, out, workers=1)
    assert (outcome.found, outcome.written) == (6, 2)
    assert tree(out) == tree(whole)


def test_a_sample_that_is_damaged_twice_is_moved_twice(plan, out):
    file = folders(plan, out)[0] / "image.png"
    for text in ("first", "second"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        assert move_damaged_samples(plan, out) == (1, 0)
    assert [found.read_text() for found in out.glob(f"{DAMAGED_FOLDER}/**/image.png")] == ["second"]


def test_samples_outside_the_plan_are_counted_but_not_moved(plan, whole, out):
    for folder in folders(plan, out)[:3]:
        (folder / "image.png").unlink()
    outcome = render(replace(plan, samples=plan.samples[2:5]), out, workers=1, repair=True)
    assert (outcome.damaged, outcome.damaged_outside_plan, outcome.found, outcome.written) == (1, 2, 2, 1)
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


def test_missing_or_wrong_checksums_are_written_again(plan, whole, out):
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


def test_the_next_run_completes_the_description_of_a_killed_run(plan, whole, out):
    shutil.copy(out / SUMS, out / NEXT_SUMS)
    (out / SUMS).write_text("")
    describe_folder(replace(plan, samples=plan.samples[:1]), out)
    assert tree(out) == tree(whole)


def test_a_lost_dataset_json_does_not_lose_the_plans_of_other_runs(plan, whole, out):
    (out / "dataset.json").unlink()
    describe_folder(replace(plan, samples=plan.samples[:1]), out, repair=True)
    assert tree(out) == tree(whole)


@pytest.mark.parametrize(
    ("overrides", "differences"),
    [
        (["seed=1"], "seed is 0 there and 1 here"),
        (
            ["render.preset=draft"],
            "render.preset is standard there and draft here, render.samples is 16 .* 4",
        ),
        (
            ["sets.dead_leaves.draws=9", "layers=[image]", "do={azimuth: 3}"],
            r"layers is \[.image., .{30}.*\.\.\. there and \[.image.\] here, do.azimuth is not given there "
            "and 3 here, sets.dead_leaves.draws is [0-9]+ there and 9 here; name another folder, or undo",
        ),
        (["image.width=16", "image.height=12", "exposure=2", "seed=2"], "and 1 more; name another"),
    ],
)
def test_fields_that_differ_from_the_recipe_of_a_folder_are_named(whole, overrides, differences):
    with pytest.raises(InputError, match=rf"another recipe \(dead-leaves, \w{{12}}\): .*{differences}"):
        describe_folder(leaves(*overrides), whole)


@pytest.mark.parametrize("damage", [lambda file: file.unlink(), lambda file: file.write_text("{")])
def test_frames_of_another_recipe_are_refused_without_a_readable_dataset_json(plan, out, damage):
    damage(out / "dataset.json")
    before = tree(out)
    with pytest.raises(InputError, match=r"holds frames of another recipe \(dead-leaves, "):
        render(leaves("seed=1"), out, workers=1, repair=True)
    assert tree(out) == before
    # Also if only the samples are left.
    for name in ("plan.parquet", "dataset.json", SUMS):
        (out / name).unlink(missing_ok=True)
    with pytest.raises(InputError, match=r"holds frames of another recipe"):
        describe_folder(leaves("seed=1"), out, repair=True)
    with pytest.raises(InputError, match=r"if these are frames without their dataset\.json, add `repair`"):
        describe_folder(plan, out)


def test_the_commands_find_and_repair_damage(whole, out):
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
    assert result.stdout.endswith(f"render damaged frames again: candlelight render --repair --out {out}\n")
    result = run("render", "--repair", "--out", out, "--workers", "1")
    assert result.exit_code == 0, result.output
    assert "1 frames were damaged and rendered again\n" in result.stdout
    assert tree(out) == tree(whole)


def test_a_repair_without_a_recipe_needs_the_plan(out, tmp_path):
    result = run("render", "--out", out)
    assert result.exit_code == 2
    assert "Missing argument 'RECIPE'; it may be left out only with --repair." in result.output
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
def test_a_folder_that_is_moved_ends_the_run_and_its_frames_stay_whole(plan, whole, tmp_path, after):
    out = tmp_path / "frames"

    def vanish(count):
        if count and out.exists() and not (tmp_path / "moved").exists():
            out.rename(tmp_path / "moved")
            if after == "an empty folder":
                out.mkdir()

    with pytest.raises(InputError, match=r"frames: was moved, removed or replaced during .*run again") as e:
        render(plan, out, workers=1, advance=vanish)
    assert "\n" not in str(e.value)
    moved = tmp_path / "moved"
    assert not verify(moved).damaged
    if after == "nothing":
        assert not out.exists()
        outcome = render(plan, moved, workers=1)
        assert outcome.found >= 1
        assert tree(moved) == tree(whole)


def test_a_full_disk_ends_the_run_and_the_next_run_resumes(plan, whole, tmp_path):
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


@pytest.mark.parametrize("name", [".lock", ".group-locks", "samples"])
def test_a_file_in_place_of_a_folder_is_named(plan, tmp_path, name):
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
        (errno.EEXIST, "the path is not a folder; name another"),
    ],
)
def test_the_reason_why_a_folder_cannot_be_written(tmp_path, code, line):
    error = OSError(code, os.strerror(code), str(tmp_path / "x"))
    assert str(cannot_write(tmp_path, error)) == f"output folder {tmp_path}: cannot be written: {line}"


def test_a_lock_of_another_user_is_named(tmp_path):
    (lock := tmp_path / ".lock").touch()
    error = PermissionError(errno.EACCES, "", str(lock))
    remedy = rf"Permission denied \(\.lock\); its owner may run `chmod -R g\+w {tmp_path}`, or name another$"
    assert re.search(remedy, str(cannot_write(tmp_path, error)))


def test_a_name_that_is_too_long(plan, tmp_path):
    with pytest.raises(InputError, match="cannot be written: File name too long; name another"):
        render(plan, tmp_path / ("x" * 300), workers=1)


def test_group_locks_do_not_make_the_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        GroupLocks(tmp_path / "none")


def test_links_are_not_followed(plan, whole, out, tmp_path):
    """Samples behind a link named like the folder of damaged samples stay."""
    other = shutil.copytree(whole, tmp_path / "other")
    (out / DAMAGED_FOLDER).symlink_to("../other")
    render(plan, out, workers=1)
    (folders(plan, out)[0] / "image.png").unlink()
    with pytest.raises(InputError, match=r"\.damaged: expected a folder without links, for damaged samples"):
        render(plan, out, workers=1, repair=True)
    assert tree(other) == tree(whole)


def test_sets_of_a_recipe_are_rendered_and_repaired_one_after_another(write_recipe, tmp_path):
    text = "name: own\nimage: {width: 32, height: 24}\nsets:\n"
    text += "".join(f"  {name}: {{extends: dead-leaves/dead_leaves, draws: 3}}\n" for name in "ab")
    recipe, whole, parts = write_recipe(text), tmp_path / "whole", tmp_path / "parts"
    assert run("render", recipe, "--out", whole, "--workers", 1).exit_code == 0
    for name, shard, counts in (
        ("a", "1/1", "3 frames written, 0 were there"),
        ("b", "1/3", "1 frames written, 0 were there"),
        ("b", "1/1", "2 frames written, 1 were there"),
    ):
        shown = run("render", recipe, "--sets", name, "--shard", shard, "--out", parts, "--workers", 1)
        assert counts in shown.output
    assert tree(parts) == tree(whole)
    for folder in folders(make_plan(load_recipe(recipe)), parts)[1:4]:
        (folder / "image.png").unlink()
    shown = run("render", "--repair", "--sets", "a", "--out", parts, "--workers", 1).output
    assert "2 frames were damaged and rendered again; 1 damaged frames are not in this plan" in shown
    run("render", "--repair", "--out", parts, "--workers", 1)
    assert tree(parts) == tree(whole)
    with pytest.raises(InputError, match=rf"is a folder of frames; name its plan: {parts}/plan\.parquet"):
        load_recipe(parts)
