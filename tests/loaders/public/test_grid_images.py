import io
import pickle  # noqa: TID251 - a DataLoader pickles a reader when it spawns workers
import zipfile

import h5py
import numpy as np
import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.public.grid_images import FILE_STEM, MPI3D, DSprites, Shapes3D
from candlelight.loaders.samples import collate
from candlelight.loaders.selection.factor_index import FactorIndex

torch = pytest.importorskip("torch")

DSPRITES_SIZES = (1, 3, 2, 4, 2, 2)
MPI3D_SIZES = (2, 2, 2, 3, 3, 2, 2)


class Hostile:
    """An object that raises when it is unpickled."""

    def __reduce__(self):
        return (eval, ("1 / 0",))


def dsprites_arrays():
    classes = np.stack(np.unravel_index(np.arange(96), DSPRITES_SIZES), axis=1)
    scales = [np.array([1.0]), np.array([1.0, 2, 3]), np.array([0.5, 1]), np.linspace(0, 2 * np.pi, 4)]
    scales += [np.array([0.0, 1])] * 2
    values = np.stack([scale[classes[:, k]] for k, scale in enumerate(scales)], axis=1)
    images = np.random.default_rng(0).integers(0, 2, (96, 64, 64), np.uint8)
    metadata = np.array(Hostile(), dtype=object)  # an object array is stored as a pickle
    return {"imgs": images, "latents_values": values, "latents_classes": classes, "metadata": metadata}


@pytest.fixture
def dsprites_root(tmp_path):
    arrays = dsprites_arrays()
    np.savez_compressed(tmp_path / f"{FILE_STEM}.npz", **arrays)
    return tmp_path


@pytest.fixture
def mpi3d_root(tmp_path):
    images = np.random.default_rng(1).integers(0, 256, (np.prod(MPI3D_SIZES), 8, 8, 3), np.uint8)
    np.savez(tmp_path / "mpi3d_toy.npz", images=images)
    np.savez_compressed(tmp_path / "mpi3d_real.npz", images=images)
    return tmp_path, images


def shapes3d_labels():
    scales = [[0.0, 0.1]] * 3 + [[0.75, 1.25], [0.0, 1, 2, 3], [-30.0, 0, 30]]
    grid = np.meshgrid(*scales, indexing="ij")
    return np.stack([axis.reshape(-1) for axis in grid], axis=1)


def write_shapes3d(path, chunks=None, labels=None):
    labels = shapes3d_labels() if labels is None else labels
    images = np.random.default_rng(2).integers(0, 256, (len(labels), 64, 64, 3), np.uint8)
    with h5py.File(path, "w") as file:
        compression = "gzip" if chunks else None
        file.create_dataset("images", data=images, chunks=chunks, compression=compression)
        file["labels"] = labels
    return images


def test_dsprites_reads_npz_through_a_cache(dsprites_root, tmp_path):
    data = DSprites(dsprites_root, cache=tmp_path / "cache")
    arrays = dsprites_arrays()
    assert len(data) == 96
    np.testing.assert_array_equal(data.factor_table, arrays["latents_classes"])
    assert [factor.name for factor in data.factors] == "color shape scale orientation posX posY".split()
    assert data.factors[1].values == ("square", "ellipse", "heart")
    assert data.factors[3].values[-1] == pytest.approx(2 * np.pi)
    for row in (0, 57, -1):
        item = data[row]
        assert item["index"] == row % 96
        assert item["id"] == str(row % 96)
        np.testing.assert_array_equal(item["image"], 255 * arrays["imgs"][row][None])
        assert list(item["factors"].values()) == arrays["latents_classes"][row].tolist()
        values = data.space.values_at(item["index"])
        assert values["scale"] == arrays["latents_values"][row, 2]
    assert DSprites(dsprites_root, cache=tmp_path / "cache", linear=True)[3]["image"].max() == 1.0


def test_dsprites_compressed_needs_a_cache(dsprites_root):
    with pytest.raises(InputError, match=r"`imgs` is compressed .* pass `cache` .* a folder .* 0\.0 GB"):
        DSprites(dsprites_root)


@pytest.mark.parametrize("cached", [False, True])
def test_dsprites_hdf5_and_npz_give_the_same_images(dsprites_root, tmp_path, cached):
    arrays = dsprites_arrays()
    hdf5_file = tmp_path / "hdf5" / f"{FILE_STEM}.hdf5"
    hdf5_file.parent.mkdir()
    with h5py.File(hdf5_file, "w") as file:
        file.create_dataset("imgs", data=arrays["imgs"], chunks=(40, 2, 4), compression="gzip")
        file["latents/values"] = arrays["latents_values"]
        file["latents/classes"] = arrays["latents_classes"]
    one = DSprites(dsprites_root, cache=tmp_path / "cache")
    two = DSprites(hdf5_file, cache=tmp_path / "cache" if cached else None)
    assert one.factors == two.factors
    for row in range(0, 96, 5):
        assert torch.equal(one[row]["image"], two[row]["image"])


def test_the_cache_is_named_by_content(dsprites_root, tmp_path):
    cache = tmp_path / "cache"
    before = DSprites(dsprites_root, cache=cache)[5]["image"]
    arrays = dsprites_arrays()
    arrays["imgs"] = 1 - arrays["imgs"]
    np.savez_compressed(dsprites_root / f"{FILE_STEM}.npz", **arrays)
    after = DSprites(dsprites_root, cache=cache)[5]["image"]
    assert torch.equal(after, 255 - before)
    assert len(list(cache.iterdir())) == 2


def test_dsprites_refuses_rows_out_of_order(tmp_path):
    arrays = dsprites_arrays()
    arrays["latents_values"] = arrays["latents_values"][::-1]
    np.savez(tmp_path / f"{FILE_STEM}.npz", **arrays)
    with pytest.raises(InputError, match="not those of a full grid in order"):
        DSprites(tmp_path)


def test_mpi3d_reads_a_stored_member_in_place(mpi3d_root):
    root, images = mpi3d_root
    data = MPI3D(root, sizes=MPI3D_SIZES)
    assert data.space.sizes == MPI3D_SIZES
    assert data.factors[0].values == ("white", "green")
    row = data.space.index(
        {
            **{"object_color": "green", "object_shape": "cone", "object_size": "large"},
            **{"camera_height": "bottom", "background_color": "salmon"},
            **{"horizontal_axis": 0, "vertical_axis": 1},
        }
    )
    np.testing.assert_array_equal(data[row]["image"], np.moveaxis(images[row], 2, 0))
    assert data[row]["factors"]["background_color"] == 2
    assert data._rows.path == root / "mpi3d_toy.npz"  # no copy was made


def test_mpi3d_compressed_and_stored_are_equal(mpi3d_root, tmp_path):
    root, _ = mpi3d_root
    stored = MPI3D(root, "toy", sizes=MPI3D_SIZES)
    packed = MPI3D(root, "real", sizes=MPI3D_SIZES, cache=tmp_path / "cache")
    assert all(torch.equal(stored[row]["image"], packed[row]["image"]) for row in range(0, len(stored), 7))


def test_mpi3d_early_and_complex_grids_are_found_by_their_size(tmp_path):
    # 460800 images of one pixel, so that the file is small
    images = np.zeros((460800, 1, 1, 3), np.uint8)
    np.savez(tmp_path / "mpi3d_realistic.npz", images=images)
    np.savez(tmp_path / "real3d_complicated_shapes_ordered.npz", images=images)
    assert MPI3D(tmp_path, "realistic").factors[1].values == ("cone", "cube", "hexagonal", "sphere")
    assert MPI3D(tmp_path, "complex").factors[1].values[0] == "coffee-cup"


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({}, "expected 1036800 images, one for each point"),
        ({"sizes": (2, 2)}, "`sizes`: expected 7 numbers"),
        ({"sizes": (7, 2, 2, 3, 3, 2, 2)}, "`sizes`: expected 7 numbers"),
        ({"sizes": (2, 2, 2, 3, 3, 2, 3)}, "expected 432 images"),
        ({"variant": "complex"}, "real3d_complicated_shapes_ordered.npz is missing; get it from https"),
    ],
)
def test_mpi3d_refuses_bad_arguments(mpi3d_root, kwargs, message):
    with pytest.raises(InputError, match=message):
        MPI3D(mpi3d_root[0], **kwargs)


@pytest.mark.parametrize("chunks", [None, (1, 64, 64, 3), (32, 16, 64, 1)])
@pytest.mark.parametrize("cached", [False, True])
def test_shapes3d_images_and_factors_are_read(tmp_path, chunks, cached):
    images = write_shapes3d(tmp_path / "3dshapes.h5", chunks)
    data = Shapes3D(tmp_path, cache=tmp_path / "cache" if cached else None)
    assert data.factors[3].values == (0.75, 1.25)
    assert data.factors[4].values == ("cube", "cylinder", "sphere", "capsule")
    assert data.factors[5].unit == "degree"
    for row in (0, 100, 191):
        np.testing.assert_array_equal(data[row]["image"], np.moveaxis(images[row], 2, 0))
        labels = [f.values[n] for f, n in zip(data.factors, data[row]["factors"].values(), strict=True)]
        assert labels[:4] == shapes3d_labels()[row, :4].tolist()


def test_shapes3d_unknown_shape_numbers_are_kept(tmp_path):
    labels = shapes3d_labels()
    labels[:, 4] += 1
    write_shapes3d(tmp_path / "3dshapes.h5", labels=labels)
    assert Shapes3D(tmp_path).factors[4].values == (1.0, 2.0, 3.0, 4.0)


def test_linear_decodes_srgb(mpi3d_root):
    root, images = mpi3d_root
    image = MPI3D(root, sizes=MPI3D_SIZES, linear=True)[9]["image"]
    encoded = np.moveaxis(images[9], 2, 0) / 255
    expected = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    assert image.dtype == torch.float32
    np.testing.assert_allclose(image, expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["npz", "hdf5"])
def test_workers_read_the_same(tmp_path, mpi3d_root, kind):
    if kind == "npz":
        data = MPI3D(mpi3d_root[0], sizes=MPI3D_SIZES)
    else:
        write_shapes3d(tmp_path / "3dshapes.h5", (1, 64, 64, 3))
        data = Shapes3D(tmp_path)
    first = data[11]["image"]  # opened before it is pickled
    sent = pickle.dumps(data)
    assert len(sent) < 20_000  # without the array
    assert torch.equal(pickle.loads(sent)[11]["image"], first)
    batch = collate([data[0], data[11]])
    assert torch.equal(batch["image"][1], first)
    assert batch["factors"][data.factors[-1].name].dtype == torch.int64


def test_rows_beyond_the_end_are_refused(mpi3d_root):
    data = MPI3D(mpi3d_root[0], sizes=MPI3D_SIZES)
    with pytest.raises(IndexError):
        data[len(data)]


def _rewrite(path, name, data, **options):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.npy", data, **options)


def _npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("images", _npy(np.zeros((4, 2, 2, 3), np.uint8))[:-1], "and no other bytes"),
        ("images", _npy(np.zeros((4, 2, 2, 3), np.uint8)) + b"x", "and no other bytes"),
        ("images", _npy(np.zeros((4, 2, 2, 3), np.float32)), "expected uint8, got float32"),
        ("images", _npy(np.zeros((4, 2, 2), np.uint8)), "expected images of three channels"),
        ("images", _npy(np.asfortranarray(np.zeros((4, 2, 2, 3), np.uint8))), "in C order"),
        ("images", _npy(np.array([Hostile()], object)), "is pickled, which is not read"),
        ("images", b"no array", "cannot be read"),
        ("labels", _npy(np.zeros((4, 2, 2, 3), np.uint8)), "expected an array `images`, got labels.npy"),
    ],
)
def test_damaged_npz_is_refused(tmp_path, name, data, message):
    _rewrite(tmp_path / "mpi3d_toy.npz", name, data)
    with pytest.raises(InputError, match=message) as error:
        MPI3D(tmp_path, sizes=MPI3D_SIZES, cache=tmp_path / "cache")
    assert "\n" not in str(error.value)


def test_a_header_that_claims_too_many_bytes_is_refused(tmp_path):
    data = _npy(np.zeros((4, 2, 2, 3), np.uint8)).replace(b"(4, 2,", b"(4000000000, 2,")[:128]
    _rewrite(tmp_path / "mpi3d_toy.npz", "images", data)
    with pytest.raises(InputError, match="and no other bytes"):
        MPI3D(tmp_path)


def test_truncated_files_are_refused(mpi3d_root, tmp_path):
    root, _ = mpi3d_root
    whole = (root / "mpi3d_toy.npz").read_bytes()
    (root / "mpi3d_toy.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="cannot be read"):
        MPI3D(root, sizes=MPI3D_SIZES)
    write_shapes3d(tmp_path / "3dshapes.h5")
    whole = (tmp_path / "3dshapes.h5").read_bytes()
    (tmp_path / "3dshapes.h5").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="cannot be read"):
        Shapes3D(tmp_path)


def test_a_flipped_bit_is_found_when_unpacking(mpi3d_root, tmp_path):
    root, _ = mpi3d_root
    data = bytearray((root / "mpi3d_real.npz").read_bytes())
    data[len(data) // 2] ^= 4
    (root / "mpi3d_real.npz").write_bytes(data)
    with pytest.raises(InputError, match="cannot be read"):
        MPI3D(root, "real", sizes=MPI3D_SIZES, cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def _external(file, folder):
    (folder / "raw").write_bytes(bytes(4 * 12))
    storage = [(str(folder / "raw"), 0, h5py.h5f.UNLIMITED)]
    file.create_dataset("images", (4, 2, 2, 3), np.uint8, external=storage)


def _linked(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["images"] = np.zeros((4, 2, 2, 3), np.uint8)
    file["images"] = h5py.ExternalLink(str(folder / "other.h5"), "images")


def _virtual(file, folder):
    layout = h5py.VirtualLayout((4, 2, 2, 3), np.uint8)
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "images", (4, 2, 2, 3))
    file.create_virtual_dataset("images", layout)


@pytest.mark.parametrize("point", [_external, _linked, _virtual])
def test_hdf5_that_refers_to_other_files_is_refused(tmp_path, point):
    with h5py.File(tmp_path / "3dshapes.h5", "w") as file:
        file["labels"] = shapes3d_labels()
        point(file, tmp_path)
    with pytest.raises(InputError, match="refers to other files"):
        Shapes3D(tmp_path)


def test_wrong_labels_are_refused(tmp_path):
    labels = shapes3d_labels()
    labels[[0, 1]] = labels[[1, 0]]
    write_shapes3d(tmp_path / "3dshapes.h5", labels=labels)
    with pytest.raises(InputError, match="not those of a full grid in order"):
        Shapes3D(tmp_path)


def test_a_file_truncated_while_reading_is_refused(mpi3d_root):
    data = MPI3D(mpi3d_root[0], sizes=MPI3D_SIZES)
    assert len(data[287]["image"]) == 3
    path = mpi3d_root[0] / "mpi3d_toy.npz"
    path.write_bytes(path.read_bytes()[:20_000])
    assert len(data[0]["image"]) == 3
    with pytest.raises(InputError, match=r"mpi3d_toy\.npz: is cut off; get the file again"):
        data[287]


def test_an_array_bomb_is_refused_before_memory_is_allocated(tmp_path):
    """The member has a few bytes of deflate and claims 40 TB."""
    with zipfile.ZipFile(tmp_path / "mpi3d_toy.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        head = io.BytesIO()
        shape = (1036800, 3600, 3600, 3)
        np.lib.format.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": shape})
        archive.writestr("images.npy", head.getvalue())
    with pytest.raises(InputError, match="and no other bytes"):
        MPI3D(tmp_path, cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_factor_index_takes_a_public_data_set(mpi3d_root):
    index = FactorIndex.of(MPI3D(mpi3d_root[0], sizes=MPI3D_SIZES))
    rows = index.rows(object_color="green", camera_height="top", vertical_axis=1)
    grid = np.arange(np.prod(MPI3D_SIZES)).reshape(MPI3D_SIZES)
    np.testing.assert_array_equal(np.sort(rows), grid[1, :, :, 0, :, :, 1].reshape(-1))
