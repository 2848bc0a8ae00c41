"""Packs that are killed and packed again: the files equal the result of one uninterrupted call."""

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders.errors import InputError
from candlelight.loaders.frames import frame_path, read_metadata
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub import shards
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.packs import finished_rows
from candlelight.loaders.packs.split_plan import SplitPlan

HALVES = SplitPlan(factor="color", values={"test": ("blue",)})
# Packs in child processes that kill themselves at their n-th access to the file system; the next process
# continues. Prints the number of kills, and the number of kills that left finished pieces.
KILL_EVERYWHERE = """
import hashlib, os, shutil, signal, sys
from pathlib import Path

from candlelight.loaders.hub import shards
from candlelight.loaders.packs import finished_rows
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.packs.split_plan import SplitPlan

root, out, kind, only, step = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
finished_rows.PART_BYTES, shards.ROW_GROUP_BYTES, shards.SHARD_BYTES = 1, 1, 2**17
halves = SplitPlan(factor="color", values={"test": ("blue",)})
pack = pack_hub if kind == "hub" else pack_hdf5

def hashes(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and ".partial" not in str(path))
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}

def child(limit, target):
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    seen = 0
    def touch(event, arguments):
        nonlocal seen
        # Removals are reported with the last part of the path only.
        removed = event in ("os.remove", "os.rmdir")
        if removed or event in ("open", "os.rename", "os.mkdir") and "out" in str(arguments[0]):
            seen += 1
            if seen == limit:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(touch)
    pack(root, target, [only], plan=halves, threads=1)
    os._exit(0)

assert child(0, out / "calm") == 0
due, kills, resumed, limit = hashes(out / "calm"), 0, 0, 1
while True:
    target = out / f"torn-{limit}" / "pack"
    status = child(limit, target)
    if status == 0:
        assert hashes(target) == due
        break
    assert os.WIFSIGNALED(status), status
    kills += 1
    resumed += any(target.parent.rglob("*.part")) or any(target.parent.rglob("shards/*/*/*.parquet"))
    assert child(0, target) == 0
    assert hashes(target) == due, limit
    assert not list(target.parent.rglob(".*")), limit
    # A killed call over a whole pack leaves this pack unchanged.
    if limit % 3 == 0:
        child(limit, target)
        there = hashes(target) or hashes(target.with_name(".pack.replaced"))
        assert there == due, limit
    shutil.rmtree(target.parent)
    limit += step
print(kills, resumed)
"""


def hashes(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def small_pieces(monkeypatch):
    """Make parts and shards of one or two rows."""
    monkeypatch.setattr(finished_rows, "PART_BYTES", 1)
    monkeypatch.setattr(shards, "ROW_GROUP_BYTES", 1)
    monkeypatch.setattr(shards, "SHARD_BYTES", 2**17)


def stop_after(monkeypatch, rows: int) -> None:
    """Interrupt packing after the given number of frames."""
    from candlelight.loaders.packs.pack_source import PackSource

    read = PackSource.frame
    seen = []

    def frame(self, row):
        seen.append(row)
        if len(seen) > rows:
            raise KeyboardInterrupt
        return read(self, row)

    monkeypatch.setattr(PackSource, "frame", frame)


def pack(kind: str, root: Path, out: Path, **options) -> None:
    (pack_hub if kind == "hub" else pack_hdf5)(root, out, ["grid"], plan=HALVES, threads=1, **options)


@pytest.mark.parametrize(("kind", "step"), [("hub", 41), ("hdf5", 9)])
def test_a_pack_killed_at_any_file_access_is_completed(frames_root, tmp_path, kind, step):
    command = [sys.executable, "-c", KILL_EVERYWHERE, frames_root, tmp_path / "out", kind, "grid", str(step)]
    (tmp_path / "out").mkdir()
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    kills, resumed = map(int, done.stdout.split())
    assert kills >= 4
    assert resumed >= kills // 4


@pytest.mark.parametrize("kind", ["hub", "hdf5"])
def test_a_killed_command_is_completed_by_the_next_command(frames_root, tmp_path, kind):
    command = ["pack", str(frames_root), "--to", kind, "--out"]
    torn = [sys.executable, "-m", "candlelight", *command, str(tmp_path / "torn")]
    process = subprocess.Popen(torn, stdout=subprocess.DEVNULL)
    while process.poll() is None and not any(tmp_path.iterdir()):
        time.sleep(0.002)
    process.kill()
    process.wait()
    for name in ("torn", "calm"):
        result = CliRunner().invoke(main, [*command, str(tmp_path / name)])
        assert result.exit_code == 0, result.output
    assert hashes(tmp_path / "torn") == hashes(tmp_path / "calm")


@pytest.mark.parametrize("kind", ["hub", "hdf5"])
def test_finished_pieces_are_not_made_again(small_pieces, frames_root, tmp_path, monkeypatch, kind):
    from candlelight.loaders.packs.pack_source import PackSource

    pack(kind, frames_root, tmp_path / "calm" / "out")
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(KeyboardInterrupt):
            pack(kind, frames_root, tmp_path / "torn" / "out")
    read = PackSource.frame
    rows = []
    monkeypatch.setattr(PackSource, "frame", lambda self, row: rows.append(row) or read(self, row))
    pack(kind, frames_root, tmp_path / "torn" / "out")
    assert 0 < len(rows) < 6
    assert hashes(tmp_path / "torn") == hashes(tmp_path / "calm")


def write_anew(root: Path) -> None:
    path = frame_path(root, "grid", 0)
    text = json.loads((path / "metadata.json").read_text())
    text["exogenous"]["camera_jitter"] = 0.5
    (path / "metadata.json").write_text(json.dumps(text))
    (path / "SHA256SUMS").unlink()


@pytest.mark.parametrize("kind", ["hub", "hdf5"])
def test_pieces_of_other_frames_or_options_are_discarded(
    small_pieces, frames_copy, tmp_path, monkeypatch, kind
):
    torn = tmp_path / "torn" / "out"

    def stop() -> None:
        with monkeypatch.context() as patch:
            stop_after(patch, 5)
            with pytest.raises(KeyboardInterrupt):
                pack(kind, frames_copy, torn)

    stop()
    pack(kind, frames_copy, torn, layers=["depth"])
    pack(kind, frames_copy, tmp_path / "depth" / "out", layers=["depth"])
    assert hashes(tmp_path / "torn") == hashes(tmp_path / "depth")
    stop()
    write_anew(frames_copy)
    pack(kind, frames_copy, torn)
    pack(kind, frames_copy, tmp_path / "calm" / "out")
    assert hashes(tmp_path / "torn") == hashes(tmp_path / "calm")


@pytest.mark.parametrize("kind", ["hub", "hdf5"])
def test_a_damaged_piece_is_not_packed(small_pieces, frames_root, tmp_path, monkeypatch, kind):
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(KeyboardInterrupt):
            pack(kind, frames_root, tmp_path / "torn" / "out")
    found = [*(tmp_path / "torn").rglob("*.part"), *(tmp_path / "torn").rglob("shards/*/*/*.parquet")]
    data = bytearray(found[0].read_bytes())
    data[len(data) // 2] ^= 1
    found[0].write_bytes(data)
    if kind == "hdf5":
        with pytest.raises(InputError, match=r"\.part is damaged; delete .* and pack again"):
            pack(kind, frames_root, tmp_path / "torn" / "out")
    else:
        pack(kind, frames_root, tmp_path / "torn" / "out")
        pack(kind, frames_root, tmp_path / "calm" / "out")
        assert hashes(tmp_path / "torn") == hashes(tmp_path / "calm")


@pytest.mark.parametrize("kind", ["hub", "hdf5"])
def test_frames_that_change_during_packing_are_named(frames_copy, tmp_path, monkeypatch, kind):
    from candlelight.loaders.packs.pack_source import PackSource

    read = PackSource.frame

    def frame(self, row):
        write_anew(frames_copy)
        return read(self, row)

    monkeypatch.setattr(PackSource, "frame", frame)
    with pytest.raises(InputError, match=r"000000 changed while it was packed; run again"):
        pack(kind, frames_copy, tmp_path / "out")
    assert read_metadata(frame_path(frames_copy, "grid", 0)).exogenous == {"camera_jitter": 0.5}
