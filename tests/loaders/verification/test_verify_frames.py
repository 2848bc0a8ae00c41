"""Verification of folders of frames: every kind of damage is found and named."""

import os
import shutil

import numpy as np
import pytest

from candlelight.loaders.frames import frame_path, write_frame
from candlelight.loaders.verification.checksums import NEXT_SUMS, SUMS
from candlelight.loaders.verification.verify_frames import DESCRIPTION, Findings, verify
from tests.loaders.edits import changed, renew_sums, write_plan
from tests.refusals import refused

FILES = ("image.png", "layers.npz", "metadata.json", SUMS)


@pytest.fixture
def root(frames_copy):
    """Write a plan for the small data set; sample 3 of `free` is not planned."""
    write_plan(frames_copy, [("grid", i) for i in range(6)] + [("free", i) for i in (5, 4, 2, 1, 0)])
    return frames_copy


def damage_reasons(root):
    return {damage.path.relative_to(root).as_posix(): damage.reason for damage in verify(root).damaged}


def test_an_undamaged_folder_has_no_findings(root):
    done = []
    assert verify(root, done.append) == Findings(11, (), (), ())
    assert done == [1] * 11


def test_flipped_bits_are_found_in_every_file(root):
    """Each flip is found, in the right folder only."""
    rng = np.random.default_rng(4)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    assert len(files) == 11 * 4 + 3
    for file in files:
        whole = file.read_bytes()
        data = bytearray(whole)
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        file.write_bytes(data)
        findings = verify(root)
        assert {damage.folder for damage in findings.damaged} == {file.parent}, file
        assert not findings.whole
        file.write_bytes(whole)


@pytest.mark.parametrize("name", FILES)
def test_truncated_missing_and_irregular_files_are_damaged(root, name):
    file = frame_path(root, "grid", 2) / name
    where = file.relative_to(root).as_posix()
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    assert damage_reasons(root)
    file.unlink()
    assert damage_reasons(root)[where] == "is missing"
    file.mkdir()
    assert damage_reasons(root) == {where: "is not a file"}
    file.rmdir()
    os.mkfifo(file)  # reading it would wait for ever
    assert damage_reasons(root) == {where: "is not a file"}


def test_extra_and_renamed_files_are_foreign(root):
    folder = frame_path(root, "grid", 2)
    (folder / "notes.txt").touch()
    findings = verify(root)
    assert (findings.whole, findings.strangers) == (True, (folder / "notes.txt",))
    (folder / "image.png").rename(folder / "image.pnf")
    findings = verify(root)
    assert damage_reasons(root) == {"samples/grid/0000/000002/image.png": "is missing"}
    assert findings.strangers == (folder / "image.pnf", folder / "notes.txt")


def test_swapped_samples_are_damaged(root):
    first, second = frame_path(root, "grid", 1), frame_path(root, "free", 1)
    first.rename(root / "aside")
    second.rename(first)
    (root / "aside").rename(second)
    assert damage_reasons(root) == {
        "samples/free/0000/000001/metadata.json": "belongs to sample grid-000001, which has another folder",
        "samples/grid/0000/000001/metadata.json": "belongs to sample free-000001, which has another folder",
    }


@pytest.mark.parametrize(
    ("part", "changes", "reason"),
    [
        ("recipe", {"name": "other", "sha256": "b" * 64}, "belongs to another recipe (other)"),
        ("renderer", {"blender": "9.9.9"}, "was traced by Blender 9.9.9; the data set has Blender 5.0.1"),
    ],
)
def test_a_sample_of_another_recipe_or_blender_is_damaged(root, make_frame, part, changes, reason):
    frame = make_frame("grid", 0)
    record = getattr(frame.metadata, part).model_copy(update=changes)
    shutil.rmtree(frame_path(root, "grid", 0))
    write_frame(root, changed(frame, **{part: record}))
    assert list(damage_reasons(root).values()) == [reason]


def test_forged_checksums_do_not_hide_invalid_metadata(root):
    folder = frame_path(root, "grid", 0)
    (folder / "metadata.json").write_text("{}")
    renew_sums(folder)
    assert list(damage_reasons(root).values()) == ["is not the metadata of a frame"]


def test_missing_samples_are_known_from_the_plan(root):
    shutil.rmtree(frame_path(root, "free", 4))
    shutil.rmtree(root / "samples" / "grid")
    findings = verify(root)
    assert (findings.checked, findings.damaged) == (4, ())
    assert sorted(findings.missing) == ["free-000004", *(f"grid-00000{i}" for i in range(6))]
    assert not findings.whole
    shutil.rmtree(root / "samples")
    assert len(verify(root).missing) == 11


def test_an_empty_sample_folder_is_damaged(root):
    folder = frame_path(root, "grid", 0)
    for file in folder.iterdir():
        file.unlink()
    findings = verify(root)
    assert {damage.folder for damage in findings.damaged} == {folder}
    assert findings.missing == ()
    folder.rmdir()
    folder.touch()
    assert damage_reasons(root) == {"samples/grid/0000/000000": "cannot be read: Not a directory"}


def test_foreign_files_are_listed_and_are_no_damage(root, make_frame):
    write_frame(root, make_frame("free", 3))  # not planned
    strangers = [
        *("old", "samples/grid/0000/2", "samples/grid/0000/notes", "samples/grid/0001/000003"),
        *("samples/none/0000/000000", "samples/grid/0000/-00001"),
    ]
    for name in strangers:
        (root / name).mkdir(parents=True)
    for name in ("samples/list.txt", "samples/grid/list.txt"):
        (root / name).touch()
    # Files that the package itself writes next to the samples are not foreign.
    for name in (".lock", ".group-locks", "preview-grid.png", "counterfactuals.html"):
        (root / name).touch()
    (root / "failed").mkdir()
    findings = verify(root)
    assert (findings.whole, findings.checked) == (True, 11)
    names = {path.relative_to(root).as_posix() for path in findings.strangers}
    assert names == {
        *("old", "samples/grid/0000/2", "samples/grid/0000/notes", "samples/grid/0001/000003"),
        *("samples/none", "samples/grid/0000/-00001", "samples/free/0000/000003"),
        *("samples/list.txt", "samples/grid/list.txt"),
    }


@pytest.mark.parametrize("name", DESCRIPTION)
def test_samples_are_checked_without_a_part_of_the_description(root, name):
    shutil.rmtree(frame_path(root, "grid", 5))
    (frame_path(root, "grid", 2) / "image.png").write_bytes(b"")
    data = (root / name).read_bytes()
    for damage in (lambda: (root / name).write_bytes(data[:9]), (root / name).unlink):
        damage()
        findings = verify(root)
        assert findings.checked == 10
        assert damage_reasons(root).keys() == {name, "samples/grid/0000/000002/image.png"}
        # Missing samples cannot be known without the plan.
        assert findings.missing == (() if name == "plan.parquet" else ("grid-000005",))


def test_a_damaged_description_without_checksums_is_reported(root):
    (root / SUMS).unlink()
    (root / "plan.parquet").write_text("no plan")
    (root / "dataset.json").write_text("{")
    assert damage_reasons(root) == {
        SUMS: "is missing",
        "plan.parquet": "is no plan",
        "dataset.json": "does not describe a folder of frames",
    }


def test_a_run_killed_while_describing_the_folder_is_reported_in_one_line(root):
    shutil.copy(root / SUMS, root / NEXT_SUMS)
    assert damage_reasons(root) == {
        NEXT_SUMS: "was left by a run that was killed while it described the folder"
    }


def test_folders_with_invalid_set_names_are_foreign(root):
    (root / "plan.parquet").unlink()
    (root / "samples" / "a b" / "0000" / "000000").mkdir(parents=True)
    assert verify(root).strangers == (root / "samples" / "a b" / "0000" / "000000",)


def test_a_folder_without_frames_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with refused(r"expected a folder of frames, with dataset\.json"):
            verify(path)
