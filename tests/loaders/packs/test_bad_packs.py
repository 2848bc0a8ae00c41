"""Bad packs of every format: readers and commands report one clear line, and never return wrong rows."""

import json
import shutil
import struct
import zlib

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders.errors import InputError
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import frame_path
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.selection.factor_index import FactorIndex
from candlelight.loaders.verification.checksums import SUMS, file_sha256, parse_sums, sums_text

pytest.importorskip("torch", exc_type=ImportError)

FORMS = ("folder", "hdf5", "hub")


@pytest.fixture(scope="module")
def good_packs(tmp_path_factory, frames_root):
    folder = tmp_path_factory.mktemp("whole")
    shutil.copytree(frames_root, folder / "folder")
    pack_hdf5(frames_root, folder / "hdf5", sets=["free"], layers=["image", "depth"])
    pack_hub(frames_root, folder / "hub", sets=["free"], layers=["image", "depth"])
    return folder


@pytest.fixture
def packs(good_packs, tmp_path, datasets):
    return shutil.copytree(good_packs, tmp_path / "packs")


def read_all(pack):
    # `open_frames` would read all factors of a folder first, because tests check types.
    frames = FrameFolder(pack, "free") if pack.name == "folder" else open_frames(pack, "free")
    return frames.__getitems__(range(len(frames)))


def run(*words):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result


def assert_refused(pack, message, info=True):
    """Expect a message of one line from reading and from `info`, and damage from `--verify`."""
    with pytest.raises(InputError, match=message) as caught:
        read_all(pack)
    assert "\n" not in str(caught.value)
    if info:
        result = run("info", pack)
        assert result.exit_code == 2
        (line,) = result.output.splitlines()
        assert line.startswith("Error: ")
    verified = run("info", pack, "--verify")
    assert verified.exit_code in (1, 2)
    assert "damaged" in verified.output or verified.exit_code == 2


def edit_json(path, edit):
    text = json.loads(path.read_text())
    edit(text)
    path.write_text(json.dumps(text))


def renew_sums(folder):
    """Renew the hashes of a changed pack, so that only its readers can find the change."""
    sums = folder / SUMS
    names = parse_sums(sums.read_bytes())
    sums.write_text(sums_text({name: file_sha256(folder / name) for name in names}))
    manifest = folder / "manifest.json"

    def edit(text):
        for shard in text["files"]:
            shard["sha256"] = file_sha256(folder / shard["path"])
            shard["bytes"] = (folder / shard["path"]).stat().st_size

    edit_json(manifest, edit)


def shard(packs):
    (path,) = (packs / "hub" / "free").glob("*.parquet")
    return path


def sample(packs, index=2):
    return frame_path(packs / "folder", "free", index)


# --------------------------------------------------------------------------------------------- truncated


def cut(path, share=0.6):
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])


def test_a_truncated_shard_is_refused(packs):
    cut(shard(packs))
    assert_refused(packs / "hub", r"train-00000-of-00001.parquet: expected \d+ bytes, got \d+; copy it anew")


def test_a_truncated_shard_with_a_forged_manifest_is_refused(packs):
    cut(shard(packs))
    renew_sums(packs / "hub")
    with pytest.raises(InputError, match=r"set `free` cannot be read: "):
        read_all(packs / "hub")
    assert run("info", packs / "hub").exit_code == 2


def test_a_truncated_hdf5_file_is_refused(packs):
    cut(packs / "hdf5" / "free.h5")
    assert_refused(packs / "hdf5", r"free.h5 cannot be read as HDF5: .*; pack it again")


@pytest.mark.parametrize("name", ["image.png", "layers.npz", "metadata.json"])
def test_a_truncated_sample_is_refused(packs, name):
    cut(sample(packs) / name)
    assert_refused(packs / "folder", f"000002/{name}", info=name == "metadata.json")


# ------------------------------------------------------------------------------------ version, layers, rows


def test_a_wrong_schema_version_is_refused(packs):
    def older(text):
        text["schema"] = 1

    edit_json(packs / "hub" / "dataset.json", older)
    edit_json(packs / "folder" / "dataset.json", older)
    with h5py.File(packs / "hdf5" / "free.h5", "r+") as file:
        text = json.loads(file.attrs["dataset"])
        file.attrs["dataset"] = np.bytes_(json.dumps({**text, "schema": 1}))
    for form in FORMS:
        message = "expected schema version 3, got 1; make the frames again with `candlelight render`"
        with pytest.raises(InputError, match=message):
            read_all(packs / form)
        result = run("info", packs / form)
        assert (result.exit_code, message in result.output) == (2, True)


def test_a_missing_layer_is_refused(packs):
    with h5py.File(packs / "hdf5" / "free.h5", "r+") as file:
        del file["depth"]
    assert_refused(packs / "hdf5", r"expected dataset `depth` of float32 \[5, 24, 32\]; pack it again")
    with pq.ParquetFile(shard(packs)) as file:
        table = file.read()
    pq.write_table(table.drop_columns(["depth"]), shard(packs))
    renew_sums(packs / "hub")
    with pytest.raises(InputError, match=r"set `free`: columns do not fit dataset.json: depth; pack it"):
        read_all(packs / "hub")


@pytest.mark.parametrize("form", FORMS)
def test_an_unknown_layer_is_refused(packs, form):
    with pytest.raises(InputError, match="layer `depht` is not in this set; it has image"):
        open_frames(packs / form, "free", layers=["depht"])


@pytest.mark.parametrize("name", ["depth", "factors/angle", "id", "metadata"])
def test_columns_of_unequal_lengths_are_refused(packs, name):
    with h5py.File(packs / "hdf5" / "free.h5", "r+") as file:
        rows = file[name][:4]
        del file[name]
        file[name] = rows
    assert_refused(packs / "hdf5", rf"expected dataset `{name}` of .* \[5\b.*\]; pack it again")


def test_fewer_rows_than_in_the_manifest_are_refused(packs):
    with pq.ParquetFile(shard(packs)) as file:
        schema, table = file.schema_arrow, file.read()
    pq.write_table(table.slice(1).cast(schema), shard(packs))
    renew_sums(packs / "hub")
    with pytest.raises(InputError, match=r"set `free`: expected 5 rows, as manifest.json says, got 4; "):
        read_all(packs / "hub")
    result = run("info", packs / "hub")
    assert (result.exit_code, "`free`: expected 5 rows, got 4" in result.output) == (2, True)


# --------------------------------------------------------------------------------------------- flipped bits


def test_a_changed_pack_at_the_same_path_is_read_anew(packs):
    good = shard(packs).read_bytes()
    with pq.ParquetFile(shard(packs)) as file:
        schema, table = file.schema_arrow, file.read()
    pq.write_table(table.take([4, 3, 2, 1, 0]).cast(schema), shard(packs))
    renew_sums(packs / "hub")
    assert [row["index"] for row in read_all(packs / "hub")] == [5, 4, 2, 1, 0]
    shard(packs).write_bytes(good)
    renew_sums(packs / "hub")
    assert [row["index"] for row in read_all(packs / "hub")] == [0, 1, 2, 4, 5]


def test_a_flipped_bit_in_a_shard_is_never_cached(packs, datasets, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", packs / "cache")
    good = shard(packs).read_bytes()
    data = bytearray(good)
    data[len(data) // 2] ^= 4
    shard(packs).write_bytes(data)
    with pytest.raises(InputError, match=r"train-00000-of-00001.parquet differs from its hash in manifest"):
        read_all(packs / "hub")
    shard(packs).write_bytes(good)
    assert len(read_all(packs / "hub")) == 5


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9, 0.999])
def test_a_flipped_bit_is_found_or_changes_no_row(packs, share):
    rows = read_all(packs / "hdf5")
    for path in (packs / "hdf5" / "free.h5", shard(packs), sample(packs) / "layers.npz"):
        data = bytearray(path.read_bytes())
        data[int(share * len(data))] ^= 4
        path.write_bytes(data)
    for form in ("hub", "folder"):
        assert run("info", packs / form, "--verify").exit_code == 1
    if run("info", packs / "hdf5", "--verify").exit_code == 0:  # an unused byte
        for before, after in zip(rows, read_all(packs / "hdf5"), strict=True):
            assert before["id"] == after["id"]
            assert (before["depth"] == after["depth"]).all()
            assert (before["image"] == after["image"]).all()


def test_a_flipped_bit_in_an_image_is_refused(packs):
    path = sample(packs) / "image.png"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert_refused(packs / "folder", r"000002/image.png cannot be read: ", info=False)


# ------------------------------------------------------------------------------------- splits and factors


@pytest.mark.parametrize("kind", ["hub", "hdf5"])
@pytest.mark.parametrize("name", ["test-ood", "../up", "a b", ""])
def test_split_names_invalid_for_datasets_are_refused(packs, tmp_path, kind, name):
    words = ["--to", kind, "--out", tmp_path / "new", "--split", f"train=0.5,{name}=0.5"]
    result = run("pack", packs / "folder", *words)
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    assert "split" in result.output
    assert not (tmp_path / "new").exists()


def test_a_manifest_with_an_invalid_split_name_is_refused(packs):
    def rename(text):
        text["files"][0]["split"] = "test-ood"

    edit_json(packs / "hub" / "manifest.json", rename)
    assert_refused(packs / "hub", r"manifest.json is damaged at files.0.split: String should match")


@pytest.mark.parametrize("form", FORMS)
def test_an_unknown_split_is_refused(packs, form):
    path = packs / form
    with pytest.raises(InputError, match="split `test`"):
        open_frames(path, "free", "test")
    result = run("info", path, "--set", "free", "--split", "test", "--sheet", path.parent / "s.png")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)


@pytest.mark.parametrize("form", FORMS)
def test_an_unknown_factor_is_refused(packs, tmp_path, form):
    frames = open_frames(packs / form, "free")
    message = "factor `colour`"
    with pytest.raises(InputError, match=message):
        frames.set_info.factor("colour")
    with pytest.raises(InputError, match="colour"):
        FactorIndex.of(frames).rows(colour="red")
    result = run("info", packs / form, "--set", "free", "--sheet", tmp_path / "s.png", "--by", "colour")
    assert (result.exit_code, message in result.output) == (2, True)


def test_an_invalid_factor_value_is_refused(packs):
    with h5py.File(packs / "hdf5" / "free.h5", "r+") as file:
        file["factors/shape"][1] = 7
    result = run("info", packs / "hdf5")
    assert (result.exit_code, "factor `shape`: expected numbers from 0 to 2" in result.output) == (2, True)
    assert run("info", packs / "hdf5", "--verify").exit_code == 1


# -------------------------------------------------------------------------------------- foreign files


@pytest.mark.parametrize("content", ["none", "arrays", "text"])
def test_a_foreign_hdf5_file_is_refused(packs, content):
    path = packs / "hdf5" / "free.h5"
    if content == "text":
        path.write_text("no HDF5")
    else:
        with h5py.File(path, "w") as file:
            if content == "arrays":
                file["images"] = np.zeros((5, 24, 32, 3), np.uint8)
                file.attrs["set"] = "free"
    expected = "cannot be read as HDF5" if content == "text" else "expected an HDF5 file of format"
    assert_refused(packs / "hdf5", f"free.h5.*{expected}")
    assert_refused(path, f"free.h5.*{expected}")


def test_foreign_parquet_files_are_refused(packs, tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    pq.write_table(pa.table({"x": [1]}), folder / "train.parquet")
    result = run("info", folder)
    assert (result.exit_code, "expected a folder of frames, an .h5 file" in result.output) == (2, True)
    shutil.copy(folder / "train.parquet", shard(packs))
    renew_sums(packs / "hub")
    with pytest.raises(InputError, match="set `free`"):
        read_all(packs / "hub")
    assert run("info", packs / "hub").exit_code == 2


# ---------------------------------------------------------------------------------- paths and PNG bombs


@pytest.mark.parametrize(
    "path", ["../secret.parquet", "../../etc/passwd", "/etc/passwd", "free/../../x.parquet", "free/x.parquet"]
)
def test_a_manifest_with_invalid_paths_is_refused(packs, path):
    def climb(text):
        text["files"][0]["path"] = path

    edit_json(packs / "hub" / "manifest.json", climb)
    assert_refused(packs / "hub", "manifest.json is damaged at files.0.path: String should match")


@pytest.mark.parametrize("name", ["../../up", "/etc", ".."])
def test_a_set_with_a_path_as_name_is_refused(packs, name):
    def rename(text):
        text["sets"] = {name: text["sets"]["free"]}

    for form in ("hub", "folder"):
        edit_json(packs / form / "dataset.json", rename)
        assert run("info", packs / form).exit_code == 2
        with pytest.raises(InputError):
            open_frames(packs / form)


def png_bomb(height, width):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(10**7))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(2**16, 2**16), (2**31 - 1, 2**31 - 1), (5000, 5000)])
def test_a_png_bomb_is_refused(packs, size):
    bomb = png_bomb(*size)
    (sample(packs) / "image.png").write_bytes(bomb)
    assert_refused(packs / "folder", "000002/image.png: expected ", info=False)
    with pq.ParquetFile(shard(packs)) as file:
        schema, table = file.schema_arrow, file.read()
    images = table["image"].to_pylist()
    images[2]["bytes"] = bomb
    place = table.column_names.index("image")
    changed = table.set_column(place, schema.field("image"), pa.array(images, schema.field("image").type))
    pq.write_table(changed.cast(schema), shard(packs))
    assert run("info", packs / "hub", "--verify").exit_code == 1
    renew_sums(packs / "hub")
    with pytest.raises(InputError, match=r"row 2: expected a PNG of 24 x 32 pixels|row 2 cannot be read"):
        read_all(packs / "hub")
