import io
import json
import pickle  # noqa: TID251 - a DataLoader pickles a reader when it spawns workers
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from candlelight.loaders.errors import InputError
from candlelight.loaders.files import layer_codecs
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
from candlelight.loaders.samples import Frame, collate


def tree(root):
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def assert_same_layers(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_frame_path_pads_small_numbers_and_widens_for_large_numbers(tmp_path):
    assert frame_path(tmp_path, "a", 999) == tmp_path / "samples/a/0000/000999"
    assert frame_path(tmp_path, "a", 12_345_678) == tmp_path / "samples/a/12345/12345678"


@pytest.mark.parametrize("name", ["", "..", ".a", "a/b", "a b", "-a", "é"])
def test_frame_path_refuses_names_that_leave_the_folder(tmp_path, name):
    with pytest.raises(InputError, match="set name"):
        frame_path(tmp_path, name, 0)


def test_frame_path_refuses_a_negative_index(tmp_path):
    with pytest.raises(InputError, match="0 or more, got -1"):
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
    hashes = {"image": frame.metadata.layers["image"]}
    alone = Frame(frame.metadata.model_copy(update={"layers": hashes}), {"image": frame.layers["image"]})
    path = write_frame(tmp_path, alone)
    assert sorted(file.name for file in path.iterdir()) == ["SHA256SUMS", "image.png", "metadata.json"]
    assert_same_layers(read_frame(path, verify=True).layers, alone.layers)


def test_file_bytes_depend_on_the_arrays_only(tmp_path, make_frame):
    frame = make_frame()
    turned = Frame(
        frame.metadata, {name: np.asfortranarray(frame.layers[name]) for name in sorted(frame.layers)}
    )
    for name, one in (("a", frame), ("b", turned)):
        (tmp_path / name).mkdir()
        write_frame(tmp_path / name, one)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_the_files_open_without_this_package(frames_root, make_frame):
    path, frame = frame_path(frames_root, "grid", 0), make_frame("grid", 0)
    with np.load(path / "layers.npz", allow_pickle=False) as layers:
        assert list(layers) == [name for name in frame.layers if name != "image"]
        assert_same_layers({"image": frame.layers["image"], **layers}, frame.layers)
    with Image.open(path / "image.png") as image:
        np.testing.assert_array_equal(np.asarray(image), frame.layers["image"])
    assert json.loads((path / "metadata.json").read_text())["schema"] == 3


def test_the_first_writer_wins(tmp_path, make_frame):
    write_frame(tmp_path, make_frame(seed=1))
    before = tree(tmp_path)
    write_frame(tmp_path, make_frame(seed=2))
    assert tree(tmp_path) == before


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
    with pytest.raises(InputError, match="is incomplete: it has no metadata"):
        write_frame(tmp_path, make_frame())
    assert not list((tmp_path / ".partial").iterdir())


def test_a_failed_write_leaves_no_files(tmp_path, make_frame, monkeypatch):
    def no_space(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("candlelight.loaders.frames.write_synced", no_space)
    with pytest.raises(OSError, match="No space"):
        write_frame(tmp_path, make_frame())
    assert not tree(tmp_path)
    assert not list((tmp_path / ".partial").iterdir())


def test_clean_partial_removes_folders_of_a_killed_writer(tmp_path):
    (tmp_path / ".partial" / f"grid-000000-{'0' * 32}").mkdir(parents=True)
    clean_partial(tmp_path)
    clean_partial(tmp_path)
    assert not list(tmp_path.iterdir())


def test_expected_headers_are_not_parsed(tmp_path, make_frame, monkeypatch):
    """Parsing sometimes fails in threads of Python 3.11; other headers are parsed, to equal arrays."""
    path = write_frame(tmp_path, make_frame("grid", 0))
    expected = read_frame(path)

    def refuse(*_):
        raise SystemError("AST constructor recursion depth mismatch")

    with monkeypatch.context() as patch:
        patch.setattr(layer_codecs._npy, "read_array_header_1_0", refuse)
        assert read_frame(path).layers.keys() == expected.layers.keys()
    monkeypatch.setattr(layer_codecs, "_npy_header", lambda *_: bytes(64))
    for name, array in read_frame(path).layers.items():
        np.testing.assert_array_equal(array, expected.layers[name])


def test_clean_partial_keeps_foreign_files(tmp_path):
    there = tmp_path / "there" / f"grid-000000-{'0' * 32}"
    there.mkdir(parents=True)
    (tmp_path / ".partial").symlink_to("there")
    clean_partial(tmp_path)
    (tmp_path / ".partial").unlink()
    (tmp_path / ".partial" / "mine").mkdir(parents=True)
    clean_partial(tmp_path)
    assert (tmp_path / ".partial" / "mine").exists()
    assert there.exists()


def test_write_frame_checks_layers_against_schema_and_hashes(tmp_path, make_frame):
    frame = make_frame()

    def write(**changed):
        layers = {name: array for name, array in (frame.layers | changed).items() if array is not None}
        write_frame(tmp_path, Frame(frame.metadata, layers))

    with pytest.raises(InputError, match="layer `albedo` has hash"):
        write(albedo=frame.layers["albedo"] + np.float16(1))
    with pytest.raises(InputError, match=r"layer `depth`: expected float32 \[24, 32\], got float64"):
        write(depth=frame.layers["depth"].astype(np.float64))
    with pytest.raises(InputError, match=r"expected uint8 \[24, 32\], got uint8 \[23, 32\]"):
        write(object=frame.layers["object"][1:])
    with pytest.raises(InputError, match="exactly the layers that its metadata lists"):
        write(depth=None)
    with pytest.raises(InputError, match="expected `image` and"):
        write(image=None)
    with pytest.raises(InputError, match=r"got .*light/top"):
        write(**{"light/top": frame.layers["albedo"]})
    assert not tree(tmp_path)


def test_reading_the_image_does_not_touch_the_npz(frames_copy):
    path = frame_path(frames_copy, "grid", 1)
    (path / "layers.npz").unlink()
    assert list(read_frame(path, layers=["image"]).layers) == ["image"]
    with pytest.raises(InputError, match=r"layers.npz is missing; delete its folder and render again"):
        read_frame(path, layers=["depth"])


def test_layers_are_read_in_schema_order_and_unknown_layers_are_refused(frames_root):
    path = frame_path(frames_root, "grid", 1)
    assert list(read_frame(path, layers=["part", "light/left", "image"]).layers) == [
        "image",
        "part",
        "light/left",
    ]
    with pytest.raises(InputError, match="layer `light/top` is missing; this frame has image"):
        read_frame(path, layers=["light/top"])
    with pytest.raises(InputError, match="layer `colour` is not known"):
        read_frame(path, layers=["colour"])


def rewrite_npz(path, **changed):
    with np.load(path / "layers.npz") as layers:
        arrays = {name: array for name, array in ({**layers} | changed).items() if array is not None}
    np.savez(path / "layers.npz", **arrays)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda path: (path / "metadata.json").unlink(),
            "metadata.json is missing; delete its folder and render again",
        ),
        (lambda path: (path / "metadata.json").write_text("{"), "metadata.json is damaged at JSON"),
        (lambda path: (path / "metadata.json").write_bytes(b"\xff\xfe"), "metadata.json is damaged at JSON"),
        (lambda path: (path / "metadata.json").write_text('{"id": 3}'), "metadata.json is damaged at id"),
        (
            lambda path: (path / "metadata.json").write_text('{"schema": 1}'),
            "expected schema version 3, got 1; make the frames again",
        ),
        (lambda path: (path / "image.png").unlink(), "image.png is missing"),
        (
            lambda path: (path / "image.png").write_bytes(b""),
            "image.png is damaged: expected a PNG, got 0 bytes",
        ),
        (lambda path: (path / "image.png").write_bytes(b"x" * 99), "image.png is damaged: it does not start"),
        (
            lambda path: (path / "layers.npz").write_bytes(b"PK"),
            "layers.npz cannot be read: File is not a zip",
        ),
        (lambda path: rewrite_npz(path, depth=None), "layers.npz: layer `depth` is missing"),
        (
            lambda path: rewrite_npz(path, depth=np.zeros((24, 32))),
            "`depth`: expected float32 .*, got float64",
        ),
        (lambda path: rewrite_npz(path, depth=np.zeros((9, 9), "f4")), r"`depth`: .*got float32 \[9, 9\]"),
        (
            lambda path: rewrite_npz(path, depth=np.zeros((24, 32), ">f4")),
            "`depth`: expected float32 .*got >f4",
        ),
        (
            lambda path: rewrite_npz(path, depth=np.array({}, object)),
            "`depth`: expected float32 .*got object",
        ),
    ],
)
def test_damage_is_reported_in_one_line_with_the_file(frames_copy, damage, message):
    path = frame_path(frames_copy, "free", 0)
    damage(path)
    with pytest.raises(InputError, match=message) as caught:
        read_frame(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_changed_array_fails_verification_only(frames_copy):
    path = frame_path(frames_copy, "free", 0)
    rewrite_npz(path, depth=np.zeros((24, 32), np.float32))
    read_frame(path)
    with pytest.raises(InputError, match="layer `depth` has hash"):
        read_frame(path, verify=True)


def png_bytes(mode, size):
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (png_bytes("L", (32, 24)), "expected a PNG of 8-bit RGB, got 8 bits of PNG colour type 0"),
        (png_bytes("I;16", (32, 24)), "got 16 bits"),
        (png_bytes("RGB", (32, 23)), r"expected \(height, width\) \(24, 32\), got \(23, 32\)"),
        (png_bytes("RGB", (32, 24))[:60], "image.png cannot be read"),
        (png_bytes("RGB", (32, 24)).replace(b"\x9c", b"\x9d"), "image.png cannot be read"),
    ],
    ids=["gray", "16 bits", "size", "truncated", "flipped bit"],
)
def test_an_image_of_another_kind_is_refused(frames_copy, data, message):
    path = frame_path(frames_copy, "grid", 0)
    (path / "image.png").write_bytes(data)
    with pytest.raises(InputError, match=message):
        read_frame(path, layers=["image"], size=(24, 32))


def test_an_image_that_claims_to_be_huge_is_refused_before_decoding(frames_copy):
    file = frame_path(frames_copy, "grid", 0) / "image.png"
    data = bytearray(file.read_bytes())
    data[16:24] = (100_000).to_bytes(4, "big") * 2
    file.write_bytes(data)
    with pytest.raises(InputError, match="expected at most 67108864 pixels, got 100000 x 100000"):
        read_frame(file.parent)


def test_an_npz_entry_with_too_many_bytes_is_refused(frames_copy):
    path = frame_path(frames_copy, "grid", 0)
    honest = io.BytesIO()
    np.save(honest, np.zeros((24, 32), np.float32))
    with zipfile.ZipFile(path / "layers.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("depth.npy", honest.getvalue() + bytes(2**26))
        archive.writestr("part.npy", b"\x93NUMPY\x03\x00" + bytes(4))
    with pytest.raises(InputError, match="layer `depth` holds too few or too many bytes"):
        read_frame(path, layers=["depth"])
    with pytest.raises(InputError, match=r"layer `part`: expected npy format 1\.0"):
        read_frame(path, layers=["part"])


def test_an_npz_entry_that_contradicts_its_directory_is_refused(frames_copy):
    file = frame_path(frames_copy, "grid", 0) / "layers.npz"
    whole = file.read_bytes()
    directory = whole.index(b"PK\x01\x02")
    # Fields of the first directory entry: flags, method, CRC-32, and offset of the data.
    for place, byte, message in (
        (8, 1, "neither stored"),
        (10, 9, "neither"),
        (16, None, "checksum"),
        (42, 7, "not at the position"),
    ):
        data = bytearray(whole)
        data[directory + place] = data[directory + place] ^ 1 if byte is None else byte
        file.write_bytes(data)
        with pytest.raises(InputError, match=f"layers.npz cannot be read: .*{message}"):
            read_frame(file.parent)
    file.write_bytes(whole)
    read_frame(file.parent, verify=True)


@pytest.mark.parametrize("name", ["image.png", "layers.npz", "metadata.json"])
def test_damaged_files_raise_only_input_errors(frames_copy, name):
    rng = np.random.default_rng(1)
    file = frame_path(frames_copy, "grid", 2) / name
    whole = file.read_bytes()
    messages = []
    for _ in range(150):
        data = bytearray(whole)
        if rng.random() < 0.3:
            del data[int(rng.integers(len(data))) :]
        else:
            # Most changes are near the ends, where headers and directories are.
            place = int(rng.choice([rng.integers(len(data)), rng.integers(200), -1 - rng.integers(200)]))
            data[place] ^= int(rng.integers(1, 256))
        file.write_bytes(data)
        try:
            read_frame(file.parent, verify=True)
        except InputError as error:
            messages.append(str(error))
    assert len(messages) > 75
    assert not [message for message in messages if "\n" in message]


def test_dataset_info_is_read_back_and_a_missing_file_is_named(tmp_path, info):
    write_dataset_info(tmp_path / "new", info)
    assert read_dataset_info(tmp_path / "new") == info
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["dataset.json"]
    with pytest.raises(InputError, match=r"dataset.json is missing; name a folder of rendered frames"):
        read_dataset_info(tmp_path)
    (tmp_path / "dataset.json").write_text(info.to_json().replace('"schema": 3', '"schema": 9'))
    with pytest.raises(InputError, match="expected schema version 3, got 9; make the frames again"):
        read_dataset_info(tmp_path)
    (tmp_path / "dataset.json").unlink()
    (tmp_path / "dataset.json").mkdir()
    with pytest.raises(InputError, match=r"dataset.json cannot be read: Is a directory"):
        read_dataset_info(tmp_path)


def test_folder_lists_complete_samples_only(frames_copy):
    samples = frames_copy / "samples" / "free" / "0000"
    (samples / "000003").mkdir()
    (samples / "notes").mkdir()
    (samples / "000004").rename(samples / "4")
    np.testing.assert_array_equal(complete_indices(frames_copy, "free"), [0, 1, 2, 5])
    assert complete_indices(frames_copy, "none").shape == (0,)
    np.testing.assert_array_equal(FrameFolder(frames_copy, "free").indices, [0, 1, 2, 5])


def test_folder_reads_rows(frames_root, make_frame, info):
    frames = FrameFolder(frames_root, "free")
    expected = make_frame("free", 4)
    assert (len(frames), frames.set_name, frames.info) == (5, "free", info)
    assert frames.metadata(3) == frames.frame(3).metadata == expected.metadata
    assert_same_layers(frames.frame(3, verify=True).layers, expected.layers)
    assert frames[-2]["id"] == frames[3]["id"] == "free-000004"
    assert [sample["index"] for sample in frames.__getitems__([4, 0])] == [5, 0]
    with pytest.raises(IndexError):
        frames[5]
    assert len(list(frames)) == 5


def test_folder_reads_chosen_layers(frames_root):
    frames = FrameFolder(frames_root, "grid", layers=["depth", "image"])
    assert frames.layers == ("image", "depth")
    assert {"image", "depth"} == frames[0].keys() - {"id", "index", "set", "factors"}
    with pytest.raises(InputError, match="layer `light/top` is not in this set; it has image, radiance"):
        FrameFolder(frames_root, "grid", layers=["light/top"])


def test_factor_table_has_class_indices_and_values(frames_root):
    grid = FrameFolder(frames_root, "grid").factor_table
    np.testing.assert_array_equal(grid, [[c, s] for c in range(2) for s in range(3)])
    frames = FrameFolder(frames_root, "free")
    np.testing.assert_array_equal(frames.factor_table, [[i % 3, 12.5 * i] for i in (0, 1, 2, 4, 5)])
    assert frames.factor_table is frames.factor_table


def test_folder_refuses_unknown_and_empty_sets(frames_copy, info):
    with pytest.raises(InputError, match="set `candle` is not there; expected one of: grid, free"):
        FrameFolder(frames_copy, "candle")
    with pytest.raises(InputError, match=r"choose a set \(`set_name`\); expected one of: grid, free"):
        FrameFolder(frames_copy)
    empty = info.model_copy(update={"sets": info.sets | {"later": info.sets["grid"]}})
    write_dataset_info(frames_copy, empty)
    with pytest.raises(
        InputError, match="no sample of set `later` is complete; run `candlelight render` first"
    ):
        FrameFolder(frames_copy, "later")


def test_folder_feeds_a_data_loader(frames_root):
    frames = FrameFolder(frames_root, "free", layers=["image", "depth"])
    loaded = DataLoader(pickle.loads(pickle.dumps(frames)), batch_size=2, collate_fn=collate)
    batches = list(loaded)
    assert [len(batch["id"]) for batch in batches] == [2, 2, 1]
    assert batches[0]["image"].shape == (2, 3, 24, 32)
    assert torch.isinf(batches[0]["depth"]).any()
