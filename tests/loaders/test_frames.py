import io
import json
import struct
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from candlelight.loaders.errors import InputError
from candlelight.loaders.files import layer_codecs
from candlelight.loaders.files.layer_codecs import png_file
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import (
    clean_partial,
    complete_indices,
    frame_path,
    is_complete,
    read_dataset_info,
    read_frame,
    write_dataset_info,
    write_frame,
)
from candlelight.loaders.samples import Frame
from tests.loaders.edits import changed, contents
from tests.refusals import refused


def assert_same_layers(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.fixture
def sample(frames_copy):
    """Return the folder of one frame, for tests that damage it."""
    return frame_path(frames_copy, "free", 0)


# ------------------------------------------------------------------------------------------------- writing


def test_paths_pad_small_numbers_and_widen_for_large_numbers(tmp_path):
    assert frame_path(tmp_path, "a", 999) == tmp_path / "samples/a/0000/000999"
    assert frame_path(tmp_path, "a", 12_345_678) == tmp_path / "samples/a/12345/12345678"
    for name in ("", "..", ".a", "a/b", "a b", "-a", "é"):
        with refused("set name"):
            frame_path(tmp_path, name, 0)
    with refused("0 or more, got -1"):
        frame_path(tmp_path, "a", -1)


def test_a_written_frame_is_read_back_unchanged(tmp_path, make_frame):
    frame = make_frame("free", 4)
    path = write_frame(tmp_path, frame)
    assert path == frame_path(tmp_path, "free", 4)
    assert is_complete(tmp_path, "free", 4)
    assert not is_complete(tmp_path, "free", 3)
    found = read_frame(path, verify=True)
    assert found.metadata == frame.metadata
    assert_same_layers(found.layers, frame.layers)
    assert all(array.flags.writeable for array in found.layers.values())


def test_a_frame_with_only_an_image_has_no_npz(tmp_path, make_frame):
    frame = make_frame()
    alone = changed(frame, {"image": frame.layers["image"]})
    path = write_frame(tmp_path, alone)
    assert sorted(file.name for file in path.iterdir()) == ["SHA256SUMS", "image.png", "metadata.json"]
    assert_same_layers(read_frame(path, verify=True).layers, alone.layers)


def test_file_bytes_depend_on_the_arrays_only(tmp_path, make_frame):
    frame = make_frame()
    turned = {name: np.asfortranarray(frame.layers[name]) for name in sorted(frame.layers)}
    for name, one in (("a", frame), ("b", Frame(frame.metadata, turned))):
        (tmp_path / name).mkdir()
        write_frame(tmp_path / name, one)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_the_files_open_without_this_package(frames_root, make_frame):
    path, frame = frame_path(frames_root, "grid", 0), make_frame("grid", 0)
    with np.load(path / "layers.npz", allow_pickle=False) as layers, Image.open(path / "image.png") as image:
        assert list(layers) == [name for name in frame.layers if name != "image"]
        assert_same_layers({"image": np.asarray(image), **layers}, frame.layers)
    assert json.loads((path / "metadata.json").read_text())["schema"] == 3


def test_the_first_writer_wins(tmp_path, make_frame):
    write_frame(tmp_path, make_frame(seed=1))
    before = contents(tmp_path)
    write_frame(tmp_path, make_frame(seed=2))
    assert contents(tmp_path) == before


def test_writers_at_the_same_time_leave_one_whole_frame(tmp_path, make_frame):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: write_frame(tmp_path, make_frame(seed=seed)), range(8)))
    read_frame(frame_path(tmp_path, "grid", 0), verify=True)
    assert not list((tmp_path / ".partial").iterdir())


def test_an_empty_folder_is_filled_and_an_incomplete_folder_is_refused(tmp_path, make_frame):
    path = frame_path(tmp_path, "grid", 0)
    path.mkdir(parents=True)
    write_frame(tmp_path, make_frame())
    (path / "metadata.json").unlink()
    with refused("is incomplete: it has no metadata"):
        write_frame(tmp_path, make_frame())
    assert not list((tmp_path / ".partial").iterdir())


def test_a_failed_write_leaves_no_files(tmp_path, make_frame, monkeypatch):
    def no_space(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("candlelight.loaders.frames.write_synced", no_space)
    with pytest.raises(OSError, match="No space"):
        write_frame(tmp_path, make_frame())
    assert not contents(tmp_path)
    assert not list((tmp_path / ".partial").iterdir())


def test_folders_of_a_killed_writer_are_removed_and_foreign_files_kept(tmp_path):
    killed = f"grid-000000-{'0' * 32}"
    (tmp_path / ".partial" / killed).mkdir(parents=True)
    clean_partial(tmp_path)
    clean_partial(tmp_path)
    assert not list(tmp_path.iterdir())
    (tmp_path / "there" / killed).mkdir(parents=True)
    (tmp_path / ".partial").symlink_to("there")
    clean_partial(tmp_path)
    assert (tmp_path / "there" / killed).exists()
    (tmp_path / ".partial").unlink()
    (tmp_path / ".partial" / "mine").mkdir(parents=True)
    clean_partial(tmp_path)
    assert (tmp_path / ".partial" / "mine").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: {"albedo": f["albedo"] + np.float16(1)}, "layer `albedo` has hash"),
        (
            lambda f: {"depth": f["depth"].astype(np.float64)},
            r"layer `depth`: expected float32 \[24, 32\], got float64",
        ),
        (lambda f: {"object": f["object"][1:]}, r"expected uint8 \[24, 32\], got uint8 \[23, 32\]"),
        (lambda f: {"depth": None}, "exactly the layers that its metadata lists"),
        (lambda f: {"image": None}, "expected `image` and"),
        (lambda f: {"light/top": f["albedo"]}, "got .*light/top"),
    ],
)
def test_layers_are_checked_against_schema_and_hashes_before_writing(tmp_path, make_frame, change, message):
    frame = make_frame()
    layers = {
        name: array for name, array in (frame.layers | change(frame.layers)).items() if array is not None
    }
    with refused(message):
        write_frame(tmp_path, Frame(frame.metadata, layers))
    assert not contents(tmp_path)


# ------------------------------------------------------------------------------------------------- reading


def test_expected_headers_are_not_parsed(frames_root, make_frame, monkeypatch):
    """Parsing sometimes fails in threads of Python 3.11; other headers are parsed, to equal arrays."""
    path, expected = frame_path(frames_root, "grid", 0), make_frame("grid", 0)

    def refuse(*_):
        raise SystemError("AST constructor recursion depth mismatch")

    with monkeypatch.context() as patch:
        patch.setattr(layer_codecs._npy, "read_array_header_1_0", refuse)
        assert read_frame(path).layers.keys() == expected.layers.keys()
    monkeypatch.setattr(layer_codecs, "_npy_header", lambda *_: bytes(64))
    assert_same_layers(read_frame(path).layers, expected.layers)


def test_chosen_layers_are_read_in_schema_order(sample):
    names = list(read_frame(sample, layers=["part", "light/left", "image"]).layers)
    assert names == ["image", "part", "light/left"]
    for name, message in (("light/top", "is missing; this frame has image"), ("colour", "is not known")):
        with refused(f"layer `{name}` {message}"):
            read_frame(sample, layers=[name])
    (sample / "layers.npz").unlink()
    assert list(read_frame(sample, layers=["image"]).layers) == ["image"]
    with refused(r"layers.npz is missing; mend it: candlelight render --repair"):
        read_frame(sample, layers=["depth"])


def test_dataset_info_is_read_back_and_a_missing_file_is_named(tmp_path, info):
    write_dataset_info(tmp_path / "new", info)
    assert read_dataset_info(tmp_path / "new") == info
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["dataset.json"]
    with refused(r"dataset.json is missing; name a folder of rendered frames"):
        read_dataset_info(tmp_path)
    (tmp_path / "dataset.json").write_text(info.to_json().replace('"schema": 3', '"schema": 9'))
    with refused("expected schema version 3, got 9; make the frames again"):
        read_dataset_info(tmp_path)
    (tmp_path / "dataset.json").unlink()
    (tmp_path / "dataset.json").mkdir()
    with refused(r"dataset.json cannot be read: Is a directory"):
        read_dataset_info(tmp_path)


def test_only_complete_samples_are_listed(frames_copy, info):
    samples = frames_copy / "samples" / "free" / "0000"
    (samples / "000003").mkdir()
    (samples / "notes").mkdir()
    (samples / "000004").rename(samples / "4")
    np.testing.assert_array_equal(complete_indices(frames_copy, "free"), [0, 1, 2, 5])
    assert complete_indices(frames_copy, "none").shape == (0,)
    frames = FrameFolder(frames_copy, "free")
    assert frames.indices.tolist() == [0, 1, 2, 5]
    assert frames.factor_table is frames.factor_table
    frames.frame(1, verify=True)
    write_dataset_info(frames_copy, info.model_copy(update={"sets": {"later": info.sets["grid"]}}))
    with refused("no sample of set `later` is complete; run `candlelight render` first"):
        FrameFolder(frames_copy)


# -------------------------------------------------------------------------------------------------- damage


def rewrite_npz(path, **arrays):
    with np.load(path / "layers.npz") as layers:
        arrays = {name: array for name, array in ({**layers} | arrays).items() if array is not None}
    np.savez(path / "layers.npz", **arrays)


def write(name, data):
    return lambda path: (path / name).write_bytes(data)


def png(mode, size):
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, "PNG")
    return buffer.getvalue()


def npz(name, data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return write("layers.npz", buffer.getvalue())


def npy(header):
    text = str(header).ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


FLOATS = {"descr": "<f4", "fortran_order": False, "shape": (24, 32)}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda path: (path / "metadata.json").unlink(),
            "metadata.json is missing; mend it: candlelight render",
        ),
        (write("metadata.json", b"{"), "metadata.json is damaged at JSON"),
        (write("metadata.json", b"\xff\xfe"), "metadata.json is damaged at JSON"),
        (write("metadata.json", b'{"id": 3}'), "metadata.json is damaged at id"),
        (write("metadata.json", b'{"schema": 1}'), "expected schema version 3, got 1; make the frames again"),
        (lambda path: (path / "image.png").unlink(), "image.png is missing"),
        (write("image.png", b""), "image.png is damaged: expected a PNG, got 0 bytes"),
        (write("image.png", b"x" * 99), "image.png is damaged: it does not start"),
        (
            write("image.png", png("L", (32, 24))),
            "expected a PNG of 8-bit RGB, got 8 bits of PNG colour type 0",
        ),
        (write("image.png", png("I;16", (32, 24))), "got 16 bits"),
        (write("image.png", png("RGB", (32, 23))), r"expected \(height, width\) \(24, 32\), got \(23, 32\)"),
        (write("image.png", png("RGB", (32, 24))[:60]), "image.png cannot be read"),
        (write("image.png", png("RGB", (32, 24)).replace(b"\x9c", b"\x9d")), "image.png cannot be read"),
        (write("layers.npz", b"PK"), "layers.npz cannot be read: File is not a zip"),
        (lambda path: rewrite_npz(path, depth=None), "layers.npz: layer `depth` is missing"),
        *(
            (
                lambda path, array=array: rewrite_npz(path, depth=array),
                f"`depth`: expected float32 .*got {kind}",
            )
            for array, kind in (
                (np.zeros((24, 32)), "float64"),
                (np.zeros((9, 9), "f4"), r"float32 \[9, 9\]"),
                (np.zeros((24, 32), ">f4"), ">f4"),
                (np.array({}, object), "object"),
            )
        ),
        # Too much for memory, code, and bytes of another size.
        (npz("depth.npy", npy({**FLOATS, "shape": (2**20, 2**20)})), r"got float32 \[1048576, 1048576\]"),
        (npz("depth.npy", npy({**FLOATS, "descr": "|O"}) + b"cos\nsystem\n"), r"got object \[24, 32\]"),
        (npz("depth.npy", npy("__import__('os').system('true')")), "cannot be read: "),
        (npz("depth.npy", npy(FLOATS) + bytes(2**26)), "layer `depth` holds too few or too many bytes"),
        (npz("depth.npy", b"\x93NUMPY\x03\x00" + bytes(4)), r"layer `depth`: expected npy format 1\.0"),
    ],
)
def test_damage_is_named_with_the_file(sample, damage, message):
    damage(sample)
    with refused(f"{sample}.*{message}"):
        read_frame(sample, layers=["image", "depth"], size=(24, 32))


def test_an_image_that_claims_to_be_huge_is_refused_before_decoding(sample):
    write("image.png", png_file(100_000, 100_000, 8, 2, b""))(sample)
    with refused("expected at most 67108864 pixels, got 100000 x 100000"):
        read_frame(sample)


def test_a_changed_array_fails_verification_only(sample):
    rewrite_npz(sample, depth=np.zeros((24, 32), np.float32))
    read_frame(sample)
    with refused("layer `depth` has hash"):
        read_frame(sample, verify=True)


def test_npz_entries_with_paths_as_names_are_never_unpacked(sample, tmp_path):
    with zipfile.ZipFile(sample / "layers.npz", "a") as archive:
        archive.writestr("../../../../../up.npy", b"up")
        archive.writestr("/tmp/candlelight-up.npy", b"up")
    before = set(tmp_path.rglob("*"))
    assert "depth" in read_frame(sample, verify=True).layers
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("place", "byte", "message"),
    [(8, 1, "neither stored"), (10, 9, "neither"), (16, None, "checksum"), (42, 7, "not at the position")],
)
def test_an_npz_entry_that_contradicts_its_directory_is_refused(sample, place, byte, message):
    """Fields of the first directory entry: flags, method, CRC-32, and offset of the data."""
    data = bytearray((sample / "layers.npz").read_bytes())
    place += data.index(b"PK\x01\x02")
    data[place] = data[place] ^ 1 if byte is None else byte
    (sample / "layers.npz").write_bytes(data)
    with refused(f"layers.npz cannot be read: .*{message}"):
        read_frame(sample)


@pytest.mark.parametrize("name", ["image.png", "layers.npz", "metadata.json"])
def test_damaged_files_raise_only_input_errors(sample, name):
    rng = np.random.default_rng(1)
    whole, errors = (sample / name).read_bytes(), 0
    for _ in range(150):
        data = bytearray(whole)
        if rng.random() < 0.3:
            del data[int(rng.integers(len(data))) :]
        else:
            # Most changes are near the ends, where headers and directories are.
            place = int(rng.choice([rng.integers(len(data)), rng.integers(200), -1 - rng.integers(200)]))
            data[place] ^= int(rng.integers(1, 256))
        (sample / name).write_bytes(data)
        try:
            read_frame(sample, verify=True)
        except InputError:
            errors += 1
    assert errors > 75
