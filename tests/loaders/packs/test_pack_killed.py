"""Packs and exports that are killed and made again: the files equal the result of one undisturbed call."""

import subprocess
import sys

import pytest

# Works in child processes that kill themselves at their n-th access to the file system; the next process
# works undisturbed. Prints the number of kills, and the number of kills that left unfinished files.
KILL_EVERYWHERE = """
import hashlib, os, shutil, signal, sys
from contextlib import suppress
from pathlib import Path

from PIL import Image

from candlelight.loaders.exports import export_coco, export_png, export_webdataset
from candlelight.loaders.hub import shards
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.packs.split_plan import SplitPlan

root, out, kind, step = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
shards.ROW_GROUP_BYTES, shards.SHARD_BYTES = 1, 2**17
halves = SplitPlan(factor="color", values={"test": ("blue",)})

# What the works import late is imported here once, not in each child process; pyarrow imports pandas.
Image.init()
import multiprocessing.synchronize, numpy.ma
if kind == "hub":
    from candlelight.loaders.hub import card, card_pictures, croissant, set_facts
    with suppress(ImportError):
        import pandas

def work(target):
    if kind == "webdataset":
        export_webdataset(root, target, "grid", shard_size=2)
    elif kind == "coco":
        export_coco(root, target, "grid")
    elif kind == "png":
        export_png(root, target, "grid", layers=["image", "depth"])
    else:
        pack = pack_hub if kind == "hub" else pack_hdf5
        pack(root, target, ["grid"], layers=["image"], plan=halves, threads=1)

def hashes(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and ".partial" not in str(path))
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}

def unfinished(folder):
    return [path for path in folder.rglob(".*") if path.name.endswith(".partial")]

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
    work(target)
    os._exit(0)

assert child(0, out / "calm") == 0
due, kills, left, limit = hashes(out / "calm"), 0, 0, 1
while True:
    target = out / f"torn-{limit}" / "made"
    status = child(limit, target)
    if status == 0:
        assert hashes(target) == due
        break
    assert os.WIFSIGNALED(status), status
    kills += 1
    left += bool(unfinished(target.parent))
    assert child(0, target) == 0
    assert hashes(target) == due, limit
    assert not unfinished(target.parent), (limit, unfinished(target.parent))
    # A killed call over a whole pack leaves this pack unchanged.
    if limit % 3 == 0:
        child(limit, target)
        there = hashes(target) or hashes(target.with_name(".made.partial") / "replaced")
        assert there == due, limit
    shutil.rmtree(target.parent)
    limit += step
print(kills, left)
"""


@pytest.mark.parametrize(
    ("kind", "step"), [("hub", 13), ("hdf5", 4), ("webdataset", 2), ("coco", 7), ("png", 13)]
)
def test_work_killed_at_any_file_access_is_done_by_the_next_call(frames_root, tmp_path, kind, step):
    command = [sys.executable, "-c", KILL_EVERYWHERE, frames_root, tmp_path / "out", kind, str(step)]
    (tmp_path / "out").mkdir()
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    kills, left = map(int, done.stdout.split())
    assert kills >= 4
    assert left >= kills // 4
    packs = kind in ("hub", "hdf5")
    told = "its pack is begun anew" if packs else "unfinished files of a killed export"
    assert told in done.stderr
