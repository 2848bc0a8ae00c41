"""Object stores in memory and on the local disk, and a store that raises chosen faults."""

import re
import sys
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import candlelight.loaders.files.object_stores
from candlelight.loaders.files.object_stores import Store, open_store
from candlelight.loaders.frames import METADATA, frame_path
from candlelight.loaders.looking.look import describe
from tests.loaders.edits import contents
from tests.refusals import refused


class Flaky(MemoryFileSystem):
    """A store that raises `faults` one after the other, beginning after `after` calls."""

    protocol = "flaky"
    cachable = False

    def __init__(self, faults=(), after=0, when=lambda path: True):
        super().__init__(global_store=False, skip_instance_cache=True)
        self.faults, self.after, self.when, self.calls = list(faults), after, when, []

    def fail(self, path):
        if self.when(path):
            self.calls.append(path)
            if len(self.calls) > self.after and self.faults:
                raise self.faults.pop(0)

    def cat_file(self, path, **kwargs):
        self.fail(path)
        return super().cat_file(path, **kwargs)

    def find(self, path, **kwargs):
        self.fail(path)
        return super().find(path, **kwargs)


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """Record the pauses instead of waiting."""
    made = []
    monkeypatch.setattr(candlelight.loaders.files.object_stores.time, "sleep", made.append)
    return made


@pytest.fixture(params=["memory", "disk", "arrow"])
def store(request, tmp_path):
    """Open an empty store in memory, on the disk, or as hdfs:// is read."""
    if request.param == "arrow":
        arrow = pytest.importorskip("fsspec.implementations.arrow")
        fs = arrow.ArrowFSWrapper(pytest.importorskip("pyarrow.fs").LocalFileSystem())
        yield Store(f"hdfs://{tmp_path}/far/away", fs, f"{tmp_path}/far/away")
        return
    if request.param == "disk":
        yield Store(f"local://{tmp_path}/far/away", LocalFileSystem(), f"{tmp_path}/far/away")
        return
    yield open_store("memory://far/away")
    fsspec.filesystem("memory").store.clear()
    fsspec.filesystem("memory").pseudo_dirs[:] = [""]


def flaky(*faults, **options):
    fs = Flaky(faults, **options)
    return Store("flaky://far", fs, "/far")


def put(store, name, data):
    """Write a file, as another program does."""
    path = f"{store.path}/{name}"
    store.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
    store.fs.pipe_file(path, data)


def put_samples(store, root, *indices):
    for index in indices:
        for file in frame_path(root, "grid", index).iterdir():
            put(store, file.relative_to(root).as_posix(), file.read_bytes())


# ------------------------------------------------------------------------------------------ opening


def test_unknown_protocols_are_refused():
    with refused(r"^nix://bucket: cannot be opened: .* not known: nix; expected s3://"):
        open_store("nix://bucket")


@pytest.mark.parametrize(("url", "package"), [("s3://bucket/frames", "s3fs"), ("gs://b", "gcsfs")])
def test_a_missing_package_is_named(url, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with refused(rf"^{url}: needs a package; run `pip install {package}`$"):
        open_store(url)


def test_the_url_of_a_store_has_no_final_slash(frames_root):
    store = open_store("memory://far/away/")
    assert (store.url, store.path) == ("memory://far/away", "/far/away")


def test_messages_hide_passwords():
    store = Store("flaky://me:secret@host/far", Flaky([PermissionError("no")] * 2), "/far")
    for fail in (lambda: store.read("a"), lambda: open_store("nix://me:secret@host")):
        with refused(r"^(?!.*secret).*://me:\*\*\*@host"):
            fail()


# ------------------------------------------------------------------------------------------ files


def test_files_are_read_and_listed(store):
    assert store.read("dataset.json") is None
    assert store.names() == []
    assert store.names("failed") == []
    put(store, "dataset.json", b"new")
    put(store, "failed/empty.log", b"")
    assert store.read("dataset.json") == b"new"
    assert store.read("failed/empty.log") == b""
    assert store.names() == ["dataset.json", "failed"]
    put(store, "failed/failed/empty.log", b"")  # like a set `samples` in the folder `samples`
    assert store.names("failed") == ["empty.log", "failed"]


def test_complete_samples_are_listed_with_their_bytes_and_fetched(store, frames_root, tmp_path):
    assert store.complete("grid") == {}
    assert store.complete("grid", [0, 7]) == {}
    put_samples(store, frames_root, 4, 1)
    folders = {index: contents(frame_path(frames_root, "grid", index)) for index in (1, 4)}
    assert store.complete("grid") == {i: sum(map(len, files.values())) for i, files in folders.items()}
    assert list(store.complete("grid", [0])) == [1, 4]
    assert store.complete("grid", [1]) == {}
    assert store.complete("free") == {}
    store.fetch(frame_path(Path(), "grid", 4).as_posix(), tmp_path / "back")
    assert contents(tmp_path / "back") == folders[4]


def test_incomplete_and_misplaced_samples_are_not_listed(store):
    for folder in (
        *(
            "grid/0000/000002",
            "grid/0000/2",
            "grid/0001/000003",
            "grid/0001/001003",
            "grid/0001/001004/deeper",
        ),
        *("grid/0001", "grid", "grids/0000/000009"),
    ):
        put(store, f"samples/{folder}/metadata.json", b"{}")
    put(store, "samples/grid/0000/000001/image.png", b"{}")
    assert store.complete("grid") == {2: 2, 1003: 2}


def test_samples_of_several_folders_are_listed_in_order(store):
    indices = [number * 1000 + 7 for number in (12, 3, 0, 101)]
    for index in indices:
        put(store, (frame_path(Path(), "grid", index) / METADATA).as_posix(), b"{}")
    assert list(store.complete("grid")) == sorted(indices)
    assert list(store.complete("grid", [101, 3, 55])) == [3007, 101007]


# ------------------------------------------------------------------------------------------ faults


@pytest.mark.parametrize("fault", [OSError(5, "Input/output error"), RuntimeError("reset")])
def test_temporary_faults_are_retried(fault, pauses, frames_root):
    store = flaky(fault, fault)
    put_samples(store, frames_root, 0, 1)
    put(store, "dataset.json", b"{}")
    assert store.read("dataset.json") == b"{}"
    assert pauses == [1.0, 2.0]
    store.fs.faults = [fault]
    assert list(store.complete("grid")) == [0, 1]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (TimeoutError(), "TimeoutError"),
        (ValueError("two\nlines"), "two lines"),
    ],
)
def test_lasting_faults_are_reported_in_one_line(fault, said, pauses):
    store = flaky(*[fault] * 99)
    with refused(rf"^flaky://far: cannot be read: {said}$"):
        store.complete("grid", [0])
    assert pauses == list(candlelight.loaders.files.object_stores.PAUSES)
    with refused(rf"^flaky://far: cannot be read: {said}$"):
        store.read("dataset.json")


class NoCredentialsError(Exception):
    """Stand-in for boto's error, which can be recognised by its name only."""


@pytest.mark.parametrize(
    "fault",
    [
        PermissionError("Access Denied"),
        NoCredentialsError("Unable to locate credentials"),
        NotImplementedError("read only"),
        AttributeError("a defect of the package"),
    ],
)
def test_permanent_faults_are_not_retried(fault, pauses):
    with refused(f"^flaky://far: cannot be read: {fault}$"):
        flaky(fault).read("dataset.json")
    assert pauses == []


# ------------------------------------------------------------------------------------------ description


def test_the_description_of_a_store_matches_the_folder(frames_root):
    memory = fsspec.filesystem("memory")
    memory.put(str(frames_root), "/told", recursive=True)
    there, here = describe("memory://told").splitlines(), describe(frames_root).splitlines()
    # Values are not counted in a store without a plan: its metadata are not read one by one.
    assert there[1:] == [re.sub(r" \(\d\)|; there .*", "", line) for line in here[1:]]
    assert there[0].startswith("tiny (folder of frames, ")
    memory.rm("/told", recursive=True)


def test_a_missing_data_set_is_refused():
    with refused(r"^memory://nowhere: expected a folder of frames; dataset.json is"):
        describe("memory://nowhere")


def test_a_damaged_description_is_refused():
    put(open_store("memory://broken"), "dataset.json", b"{")
    with refused(r"^memory://broken/dataset.json is damaged at JSON"):
        describe("memory://broken")
