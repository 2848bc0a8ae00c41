import os

import fsspec
import numpy as np
import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders.files.object_stores import open_store
from candlelight.loaders.verification.verify_frames import Findings, verify
from candlelight.loaders.verification.verify_store import verify_store
from tests.loaders.edits import write_plan
from tests.refusals import refused


@pytest.fixture
def folder_and_store(frames_copy):
    """Write the small data set with a plan to a local folder and to memory; `free` lacks one sample."""
    (frames_copy / ".partial").rmdir()
    write_plan(frames_copy, [(name, index) for name in ("grid", "free") for index in range(6)])
    memory = fsspec.filesystem("memory")
    memory.put(str(frames_copy), "/checked", recursive=True)
    yield frames_copy, open_store("memory://checked")
    memory.rm("/checked", recursive=True)


def plain_findings(findings: Findings, root=None):
    """Return the findings as plain values, with paths relative to the root."""
    return (
        findings.checked,
        sorted((str(d.path.relative_to(root) if root else d.path), d.reason) for d in findings.damaged),
        findings.missing,
        sorted(str(path.relative_to(root) if root else path) for path in findings.strangers),
    )


def write_both(root, store, name, data):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(data)
    store.fs.pipe_file(f"{store.path}/{name}", data)


def test_an_undamaged_store_and_its_folder_have_equal_findings(folder_and_store):
    root, store = folder_and_store
    done = []
    found = verify_store(store, done.append)
    assert plain_findings(found) == (11, [], ("free-000003",), [])
    assert sum(done) == 11
    assert plain_findings(found) == plain_findings(verify(root), root)


def test_info_reads_and_verifies_a_url(folder_and_store):
    _, store = folder_and_store
    url = "memory://checked"
    assert "(folder of frames, " in CliRunner().invoke(main, ["info", url]).output
    store.fs.pipe_file(f"{store.path}/samples/grid/0000/000001/image.png", b"")
    done = CliRunner().invoke(main, ["info", url, "--verify"])
    assert done.exit_code == 1
    assert "damaged: samples/grid/0000/000001/image.png: differs from its line in SHA256SUMS\n" in done.stdout
    assert "candlelight render RECIPE --repair --out COPY, a local copy\n" in done.stdout


def test_a_flipped_bit_is_found_in_every_file(folder_and_store):
    root, store = folder_and_store
    rng = np.random.default_rng(4)
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    for name in map(str, rng.choice(names, 12, replace=False)):
        before = (root / name).read_bytes()
        data = bytearray(before)
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        write_both(root, store, name, bytes(data))
        found = verify_store(store)
        assert found.damaged, name
        assert plain_findings(found) == plain_findings(verify(root), root)
        write_both(root, store, name, before)


def test_lost_moved_and_foreign_files_are_found_as_in_a_folder(folder_and_store):
    root, store = folder_and_store
    for file in (root / "samples/grid/0000/000002").iterdir():
        write_both(root, store, f"samples/grid/0000/000005/{file.name}", file.read_bytes())
    for name in ("samples/grid/0000/000001/layers.npz", "samples/free/0000/000004/metadata.json"):
        store.fs.rm_file(f"{store.path}/{name}")
        (root / name).unlink()
    for name in (
        "notes.txt",
        "samples/grid/0000/000003/extra.bin",
        "samples/other/0000/000000/metadata.json",
    ):
        write_both(root, store, name, b"{}")
    found = verify_store(store)
    assert plain_findings(found) == plain_findings(verify(root), root)
    assert len(found.damaged) == 3
    assert "samples/other" in plain_findings(found)[3]


def test_temporary_files_are_few_and_are_removed(folder_and_store, tmp_path, monkeypatch):
    _, store = folder_and_store
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    most = []

    def watch(_):
        # `walk` ignores folders that are removed while they are listed.
        most.append(sum("metadata.json" in files for _, _, files in os.walk(tmp_path / "tmp")))

    verify_store(store, watch)
    assert max(most) <= 8
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_store_without_frames_is_refused(tmp_path):
    fsspec.filesystem("memory").pipe_file("/other/thesis.txt", b"mine")
    with refused(r"^memory://other: expected a folder of frames, with dataset.json$"):
        verify_store(open_store("memory://other"))
