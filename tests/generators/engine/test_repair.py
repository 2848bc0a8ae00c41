"""Repairs, and disks that fail: after any damage a folder ends with the bytes of an undisturbed run."""

import errno
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.generators.engine.output_locks import cannot_write
from candlelight.generators.engine.render_plan import render
from candlelight.generators.engine.repair import DAMAGED_FOLDER, move_damaged_samples, remove_replaced_samples
from candlelight.generators.language.load_recipe import load_recipe
from candlelight.generators.planning.plan import make_plan
from candlelight.generators.planning.planned_samples import compress_samples
from candlelight.loaders.frames import frame_path
from candlelight.loaders.verification.checksums import SUMS, file_sha256
from candlelight.loaders.verification.verify_frames import verify
from tests.refusals import refused

pytest.importorskip("distributed")
pytestmark = pytest.mark.usefixtures("kept_renderers")


@pytest.fixture(scope="module")
def plan():
    return make_plan(load_recipe("dead-leaves", ["image.width=32", "image.height=24"]), 6)


@pytest.fixture(scope="module")
def whole(plan, tmp_path_factory):
    """Render a few dead leaves, which no test changes."""
    out = tmp_path_factory.mktemp("whole") / "frames"
    assert render(plan, out, workers=1).written == 6
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


def test_the_commands_find_damage_and_render_it_again_to_the_same_bytes(plan, whole, out):
    result = run("info", out, "--verify")
    checked = f"{out}: 6 samples checked, 0 files damaged, 0 samples missing\n"
    assert (result.exit_code, result.stdout) == (0, checked)
    first, second, third, fourth, fifth, last = folders(plan, out)
    rng = np.random.default_rng(11)
    for name in ("image.png", "layers.npz", "metadata.json", SUMS):
        flip(first / name, rng)
    image = second / "image.png"
    image.write_bytes(image.read_bytes() + b"x")
    (second / "layers.npz").unlink()
    third.rename(out / "aside")
    fourth.rename(third)
    (out / "aside").rename(fourth)
    shutil.rmtree(fifth)
    kept = last.stat().st_ino
    result = run("info", out, "--verify")
    assert result.exit_code == 1
    assert f"damaged: {image}: differs from its line in SHA256SUMS\n" in result.stdout
    assert result.stdout.endswith(f"render damaged frames again: candlelight render --repair --out {out}\n")
    result = run("render", "--repair", "--out", out, "--workers", "1")
    assert result.exit_code == 0, result.output
    assert "5 frames written, 1 were there" in result.output
    assert "4 frames were damaged and rendered again\n" in result.stdout
    assert tree(out) == tree(whole)
    assert last.stat().st_ino == kept


def test_a_later_run_finishes_a_killed_repair_and_links_are_not_followed(plan, whole, out, tmp_path):
    first, second, *_ = folders(plan, out)
    for text in ("damaged", "damaged again"):  # and moved again
        for folder in (first, second):
            folder.mkdir(exist_ok=True)
            (folder / "image.png").write_text(text)
        assert move_damaged_samples(plan, out) == (2, 0)
    # A damaged sample stays until its replacement is complete.
    remove_replaced_samples(out)
    left = [file.read_text() for file in out.glob(f"{DAMAGED_FOLDER}/**/image.png")]
    assert left == ["damaged again"] * 2
    outcome = render(plan, out, workers=1)
    assert (outcome.found, outcome.written) == (4, 2)
    assert tree(out) == tree(whole)
    # Samples behind a link named like the folder of damaged samples stay.
    other = shutil.copytree(whole, tmp_path / "other")
    (out / DAMAGED_FOLDER).symlink_to("../other")
    render(plan, out, workers=1)
    (first / "image.png").unlink()
    with refused(r"\.damaged: expected a folder without links, for damaged samples"):
        render(plan, out, workers=1, repair=True)
    assert tree(other) == tree(whole)


def test_samples_outside_the_plan_are_counted_but_not_moved(plan, whole, out):
    for folder in folders(plan, out)[:3]:
        (folder / "image.png").unlink()
    outcome = render(replace(plan, samples=plan.samples[2:5]), out, workers=1, repair=True)
    assert (outcome.damaged, outcome.damaged_outside_plan, outcome.found, outcome.written) == (1, 2, 2, 1)
    assert not verify(out).missing
    assert move_damaged_samples(plan, out) == (2, 0)


def test_verification_finds_frames_of_edited_assets(plan, out):
    file = folders(plan, out)[0] / "metadata.json"
    before = file_sha256(file)
    file.write_text(json.dumps({**json.loads(file.read_text()), "group": "0" * 16}))
    sums = file.with_name(SUMS)
    sums.write_text(sums.read_text().replace(before, file_sha256(file)))
    [damage] = verify(out).damaged
    assert str(damage) == f"{file}: was made with other numbers or files than planned"


def test_a_renderer_that_finds_an_edited_asset_ends_the_run(plan, tmp_path):
    forged, *rest = plan.samples
    samples = compress_samples([*rest, forged.model_copy(update={"group": "0" * 16})])
    with refused(rf"assets of `{forged.id}` differ .* run again to resume"):
        render(replace(plan, samples=samples), tmp_path / "out", workers=1)


def test_a_repair_without_a_recipe_needs_the_plan(out, tmp_path):
    result = run("render", "--out", out)
    assert result.exit_code == 2
    assert "Missing argument 'RECIPE'; it may be left out only with --repair." in result.output
    flip(out / "plan.parquet", np.random.default_rng(14))
    for folder, why in ((out, "differs from its line in SHA256SUMS"), (tmp_path / "none", "is missing")):
        result = run("render", "--repair", "--out", folder)
        remedy = f"name the recipe: candlelight render RECIPE --repair --out {folder}"
        assert (result.exit_code, result.output) == (2, f"Error: {folder}/plan.parquet {why}; {remedy}\n")
    result = run("info", out, "--verify")
    assert result.exit_code == 1
    assert result.stdout.endswith(f"candlelight render RECIPE --repair --out {out}\n")


def test_sets_of_a_recipe_are_rendered_and_repaired_one_after_another(write_recipe, tmp_path):
    text = "name: own\nimage: {width: 32, height: 24}\nsets:\n"
    text += "".join(f"  {name}: {{extends: dead-leaves/dead_leaves, draws: 2}}\n" for name in "ab")
    recipe, out = write_recipe(text), tmp_path / "out"
    for name, shard, written in (("a", "1/1", 2), ("b", "1/2", 1)):
        shown = run("render", recipe, "--sets", name, "--shard", shard, "--out", out, "--workers", 1)
        assert f"{written} frames written, 0 were there" in shown.output
    plan = make_plan(load_recipe(recipe))
    for folder in folders(plan, out)[1:]:
        (folder / "image.png").unlink(missing_ok=True)
    shown = run("render", "--repair", "--sets", "a", "--out", out, "--workers", 1).output
    assert "1 frames were damaged and rendered again; 1 damaged frames are not in this plan" in shown
    with refused(rf"is a folder of frames; name its plan: {out}/plan\.parquet"):
        load_recipe(out)


# -------------------------------------------------------------------------------------- disks that fail


@pytest.mark.parametrize("after", ["nothing", "an empty folder"])
def test_a_folder_that_is_moved_ends_the_run_and_its_frames_stay_whole(plan, whole, tmp_path, after):
    out, moved = tmp_path / "frames", tmp_path / "moved"

    def vanish(count):
        if count and out.exists() and not moved.exists():
            out.rename(moved)
            if after == "an empty folder":
                out.mkdir()

    with refused(r"^.*frames: was moved, removed or replaced during .*run again.*$"):
        render(plan, out, workers=1, advance=vanish)
    assert not verify(moved).damaged
    if after == "nothing":
        assert not out.exists()
        assert render(plan, moved, workers=1).found >= 1
        assert tree(moved) == tree(whole)


def test_a_full_disk_ends_the_run_and_the_next_run_resumes(plan, whole, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=120k", "none", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        with refused(r"^.*No space left on device.*finished samples are whole.*$"):
            render(plan, disk / "frames", workers=1)
        assert not verify(disk / "frames").damaged
        subprocess.run(["mount", "-o", "remount,size=2m", disk], check=True)
        assert render(plan, disk / "frames", workers=1).found >= 1
        assert tree(disk / "frames") == tree(whole)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_file_in_place_of_the_folder_of_samples_is_named(plan, out):
    shutil.rmtree(out / "samples")
    (out / "samples").touch()
    with refused(rf"^output folder {out}: .*samples.*$"):
        render(plan, out, workers=1)


@pytest.mark.parametrize(
    ("code", "line"),
    [
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
