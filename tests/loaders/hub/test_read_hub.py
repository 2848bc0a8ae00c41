import os
import shutil
import socket
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from candlelight.loaders.frames import write_frame
from candlelight.loaders.hub import arrow_tables, read_hub
from candlelight.loaders.hub.hub_cache import check_cache
from candlelight.loaders.hub.read_hub import HubFrames
from candlelight.loaders.hub.write_hub import pack_hub
from tests.loaders.edits import edit_json, renew_hashes
from tests.refusals import refused

# Readers use `datasets` too, so that every test needs the setup of this fixture.
pytestmark = pytest.mark.usefixtures("datasets")


@pytest.fixture
def hub(stored_copy):
    return stored_copy / "hub"


@pytest.fixture
def fresh_cache(datasets, tmp_path, monkeypatch):
    """Give `datasets` an empty cache."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "fresh-cache")


def shard(folder, set_name="free"):
    return folder / set_name / "train-00000-of-00001.parquet"


def test_only_requested_values_are_decoded(stored, monkeypatch, torch):
    depth, image = (HubFrames(stored / "hub", "grid", layers=[name]) for name in ("depth", "image"))
    monkeypatch.setattr(arrow_tables, "decode_png_bytes", lambda *_: pytest.fail("decoded"))
    monkeypatch.setattr(read_hub, "parse_record", lambda *_: pytest.fail("parsed"))
    assert depth[0]["factors"] == {"color": 0, "size": 0}
    with pytest.raises(pytest.fail.Exception, match="decoded"):
        image[0]
    with pytest.raises(pytest.fail.Exception, match="parsed"):
        depth.metadata(0)


@pytest.mark.usefixtures("fresh_cache")
def test_opening_prints_nothing_and_uses_no_network(datasets, stored, monkeypatch, capfd):
    for owner, name in (
        *((socket.socket, "connect"), (socket.socket, "connect_ex")),
        (socket, "getaddrinfo"),
    ):
        monkeypatch.setattr(owner, name, lambda *_, **__: pytest.fail("network"))
    datasets.enable_progress_bars()
    try:
        HubFrames(stored / "hub", "free").frame(0)
        assert not datasets.are_progress_bars_disabled()
    finally:
        datasets.disable_progress_bars()
    HubFrames(stored / "hub", "grid")
    assert datasets.are_progress_bars_disabled()
    assert capfd.readouterr() == ("", "")


def test_a_folder_may_be_named_like_a_builder_of_datasets(hub, monkeypatch):
    hub.rename(hub.with_name("parquet"))
    monkeypatch.chdir(hub.parent)
    assert len(HubFrames(Path("parquet"), "free")) == 5


# ------------------------------------------------------------------------------ the card and the cache


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("path: free/train-*.parquet", "path: ../secret-*.parquet"),
        ("path: free/train-*.parquet", "path: https://localhost:1/secret.parquet"),
        ("- config_name: free\n  data_files", "- config_name: free\n  data_dir: /etc\n  data_files"),
        ("configs:", "configs: 7\nothers:"),
        ("configs:", f"bomb: {'[' * 1500}\nconfigs:"),
    ],
)
@pytest.mark.usefixtures("fresh_cache")
def test_the_manifest_decides_the_rows_and_not_the_card(hub, old, new):
    text = (hub / "README.md").read_text()
    assert old in text
    (hub / "README.md").write_text(text.replace(old, new, 1))
    assert HubFrames(hub, "free").indices.tolist() == [0, 1, 2, 4, 5]


@pytest.mark.usefixtures("fresh_cache")
def test_a_missing_card_and_foreign_files_are_not_read(hub):
    (hub / "README.md").unlink()
    shutil.copy(shard(hub, "grid"), hub / "free" / "train-00001-of-00001.parquet")
    assert HubFrames(hub, "free").indices.tolist() == [0, 1, 2, 4, 5]


def test_a_replaced_pack_is_read_anew(hub, frames_copy, make_frame):
    """Packs differ by content, even with the same path, file times and card."""
    before = HubFrames(hub, "free")
    times, card = shard(hub).stat().st_mtime_ns, (hub / "README.md").read_bytes()
    write_frame(frames_copy, make_frame("free", 3))
    pack_hub(frames_copy, hub)
    os.utime(shard(hub), ns=(times, times))
    (hub / "README.md").write_bytes(card)
    assert HubFrames(hub, "free").indices.tolist() == [0, 1, 2, 3, 4, 5]
    assert before.indices.tolist() == [0, 1, 2, 4, 5]


@pytest.mark.usefixtures("fresh_cache")
def test_damaged_rows_are_never_cached(hub):
    good = shard(hub).read_bytes()
    data = bytearray(good)
    data[len(data) // 2] ^= 4
    shard(hub).write_bytes(data)
    with refused(
        r"train-00000-of-00001.parquet differs from its hash in .*; check it with `candlelight info"
    ):
        HubFrames(hub, "free")
    shard(hub).write_bytes(good)
    assert len(HubFrames(hub, "free")) == 5


def test_a_cache_that_can_be_written_is_made(tmp_path):
    check_cache(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_no_folder_is_made_without_a_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with refused("there is no home folder; set HF_HOME to a folder of your own"):
        check_cache("~/.cache/huggingface/hub")
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written_is_named(datasets, stored, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "file" / "cache")
    with refused(r"the cache .*file/cache cannot be written: Not a directory; set HF_HOME"):
        HubFrames(stored / "hub", "grid")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with refused(rf"^the cache {tmp_path} cannot be written: no permission; set HF_HOME"):
        check_cache(tmp_path)


# ------------------------------------------------------------------------------------------- refusals


def manifest(edit):
    return lambda folder: edit_json(folder / "manifest.json", edit)


def first_file(**changes):
    return manifest(lambda text: text["files"][0].update(changes))


def free_set(edit):
    return lambda folder: edit_json(folder / "dataset.json", lambda text: edit(text["sets"]["free"]))


def table(edit):
    """Edit the table of a Parquet file, and renew all hashes."""

    def damage(folder):
        with pq.ParquetFile(shard(folder)) as file:
            schema, rows = file.schema_arrow, file.read()
        pq.write_table(edit(rows, schema), shard(folder))
        renew_hashes(folder)

    return damage


def cut(folder, renew=False):
    shard(folder).write_bytes(shard(folder).read_bytes()[:-100])
    if renew:
        renew_hashes(folder)


BAD_PATH = "manifest.json is damaged at files.0.path: String should match"


@pytest.mark.usefixtures("fresh_cache")
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, r"hub/manifest.json is missing; make the folder with `candlelight pack`"),
        (lambda folder: (folder / "dataset.json").unlink(), "dataset.json is missing"),
        (
            lambda folder: edit_json(folder / "dataset.json", lambda text: text.update(schema=1)),
            "expected schema version 3, got 1; make the frames again with `candlelight render`",
        ),
        (lambda folder: shard(folder).unlink(), r"free/train-0.*.parquet is missing; copy it anew or pack"),
        (lambda folder: shard(folder, "grid").unlink(), r"grid/train-00000-of-00001.parquet is missing"),
        (cut, r"free/train-00000-of-00001.parquet: expected \d+ bytes, got \d+; copy it anew or pack"),
        (lambda folder: cut(folder, renew=True), "set `free` cannot be read: "),
        (
            manifest(lambda text: text["files"][1].update(rows=7)),
            "set `free`: expected 7 rows, as manifest.json says, got 5; check it with",
        ),
        (
            table(lambda rows, schema: rows.slice(1).cast(schema)),
            "set `free`: expected 5 rows, as manifest.json says, got 4; check",
        ),
        (table(lambda *_: pa.table({"x": [1]})), "set `free`: columns do not fit dataset.json: .*image"),
        (
            table(lambda rows, _: rows.drop_columns(["depth"])),
            "set `free`: columns do not fit dataset.json: depth; pack it again",
        ),
        (
            free_set(lambda free: free["layers"].remove("depth")),
            "set `free`: columns do not fit dataset.json: depth; pack it again",
        ),
        (
            free_set(lambda free: free.update(width=24, height=32, layers=["image", "depth"])),
            "columns do not fit dataset.json: albedo, depth, light_left",
        ),
        (first_file(split="test-ood"), "manifest.json is damaged at files.0.split: String should match"),
        (first_file(path="../secret.parquet"), BAD_PATH),
        (first_file(path="/etc/passwd"), BAD_PATH),
        (first_file(path="free/x.parquet"), BAD_PATH),
        (
            lambda folder: (folder / ".huggingface.yaml").write_text("configs: []"),
            r"\.huggingface\.yaml makes `datasets` read files of no pack",
        ),
    ],
)
def test_damaged_and_foreign_folders_are_refused(hub, damage, message):
    damage(hub)
    with refused(f"{hub}.*{message.removeprefix('hub')}"):
        HubFrames(hub, "free")


def test_unusable_folders_are_refused(hub, frames_root):
    with refused(r"manifest.json is missing; make the folder with `candlelight pack`"):
        HubFrames(frames_root, "grid")
    for name in ("run[1]", "run*", "run?", "run::1"):
        hub = hub.rename(hub.with_name(name))
        with refused(r"`::` in a path as a pattern; rename the folder"):
            HubFrames(hub, "grid")
