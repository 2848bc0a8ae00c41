import io
import zipfile

import h5py
import numpy as np
import pytest

from candlelight.loaders.public.grid_images import FILE_STEM, MPI3D, DSprites, Shapes3D
from candlelight.loaders.selection.factor_index import FactorIndex
from tests.loaders.public.copies import (
    HEIGHT,
    MPI3D_SIZES,
    SHAPES3D_VALUES,
    WIDTH,
    Hostile,
    dsprites_arrays,
    grid,
    mpi3d_images,
    shapes3d_images,
    write_shapes3d,
)
from tests.refusals import refused

torch = pytest.importorskip("torch")


@pytest.fixture
def mpi3d(own_copy):
    return own_copy("mpi3d")


def test_dsprites_reads_npz_through_a_cache(public_folder, tmp_path):
    data = DSprites(public_folder("dsprites"), cache=tmp_path)
    arrays = dsprites_arrays()
    assert [factor.name for factor in data.factors] == "color shape scale orientation posX posY".split()
    assert data.factors[1].values == ("square", "ellipse", "heart")
    assert data.factors[3].values == (0, pytest.approx(2 * np.pi))
    assert data.factors[3].unit == "radian"
    for row, item in enumerate(data):
        assert item["index"] == row
        np.testing.assert_array_equal(item["image"], 255 * arrays["imgs"][row][None])
        assert data.space.values_at(row)["scale"] == arrays["latents_values"][row, 2]
    images = [
        DSprites(public_folder("dsprites"), cache=tmp_path, linear=True)[row]["image"] for row in range(4)
    ]
    assert {value for image in images for value in image.flatten().tolist()} == {0.0, 1.0}


def test_a_compressed_file_needs_a_cache(public_folder):
    with refused(r"`imgs` is compressed .* pass `cache` .* a folder .* 0\.0 GB"):
        DSprites(public_folder("dsprites"))


@pytest.mark.parametrize("cached", [False, True])
def test_dsprites_hdf5_and_npz_give_the_same_images(public_folder, tmp_path, cached):
    arrays = dsprites_arrays()
    with h5py.File(tmp_path / f"{FILE_STEM}.hdf5", "w") as file:
        file.create_dataset("imgs", data=arrays["imgs"], chunks=(10, 2, 4), compression="gzip")
        file["latents/values"] = arrays["latents_values"]
    one = DSprites(public_folder("dsprites"), cache=tmp_path / "cache")
    two = DSprites(tmp_path / f"{FILE_STEM}.hdf5", cache=tmp_path / "cache" if cached else None)
    assert one.factors == two.factors
    assert all(torch.equal(one[row]["image"], two[row]["image"]) for row in range(24))


def test_the_cache_is_named_by_content(own_copy, tmp_path):
    root, cache = own_copy("dsprites"), tmp_path / "unpacked"
    before = DSprites(root, cache=cache)[5]["image"]
    arrays = dsprites_arrays()
    np.savez_compressed(root / f"{FILE_STEM}.npz", **{**arrays, "imgs": 1 - arrays["imgs"]})
    assert torch.equal(DSprites(root, cache=cache)[5]["image"], 255 - before)
    assert len(list(cache.iterdir())) == 2


def test_mpi3d_reads_a_stored_member_in_place(mpi3d):
    data = MPI3D(mpi3d, sizes=MPI3D_SIZES)
    assert data.space.sizes == MPI3D_SIZES
    assert data.factors[0].values == ("white", "green")
    values = {"object_color": "green", "object_shape": "cone", "object_size": "small", "vertical_axis": 1}
    values |= {"camera_height": "top", "background_color": "purple", "horizontal_axis": 0}
    row = data.space.index(values)
    np.testing.assert_array_equal(data[row]["image"], np.moveaxis(mpi3d_images()[row], 2, 0))
    assert data._rows.path == mpi3d / "mpi3d_toy.npz"  # no copy was made


def test_mpi3d_unpacks_a_compressed_member(mpi3d):
    packed = MPI3D(mpi3d, "real", sizes=MPI3D_SIZES, cache=mpi3d / "cache")
    for row, image in enumerate(mpi3d_images(1)):
        np.testing.assert_array_equal(packed[row]["image"], np.moveaxis(image, 2, 0))


def test_mpi3d_early_and_complex_grids_are_found_by_their_size(tmp_path):
    # 460800 images of one pixel, so that the file is small
    np.savez(tmp_path / "mpi3d_realistic.npz", images=np.zeros((460800, 1, 1, 3), np.uint8))
    (tmp_path / "real3d_complicated_shapes_ordered.npz").hardlink_to(tmp_path / "mpi3d_realistic.npz")
    assert MPI3D(tmp_path, "realistic").factors[1].values == ("cone", "cube", "hexagonal", "sphere")
    assert MPI3D(tmp_path, "complex").factors[1].values[0] == "coffee-cup"


@pytest.mark.parametrize("chunks", [None, (1, HEIGHT, WIDTH, 3), (32, 2, WIDTH, 1)])
@pytest.mark.parametrize("cached", [False, True])
def test_shapes3d_images_and_factors_are_read(tmp_path, chunks, cached):
    write_shapes3d(tmp_path, chunks)
    data = Shapes3D(tmp_path, cache=tmp_path / "cache" if cached else None)
    assert data.factors[3].values == (0.75, 1.25)
    assert data.factors[4].values == ("cube", "cylinder", "sphere", "capsule")
    assert data.factors[5].unit == "degree"
    for row in (0, 40, 63):
        np.testing.assert_array_equal(data[row]["image"], np.moveaxis(shapes3d_images()[row], 2, 0))
        labels = [f.values[n] for f, n in zip(data.factors, data[row]["factors"].values(), strict=True)]
        assert labels[:4] == grid(SHAPES3D_VALUES)[row, :4].tolist()


def test_unknown_numbers_of_shapes_are_kept(tmp_path):
    labels = grid(SHAPES3D_VALUES)
    labels[:, 4] += 1
    write_shapes3d(tmp_path, labels=labels)
    assert Shapes3D(tmp_path).factors[4].values == (1.0, 2.0, 3.0, 4.0)


def test_rows_are_found_by_their_factors(mpi3d):
    index = FactorIndex.of(MPI3D(mpi3d, sizes=MPI3D_SIZES))
    rows = index.rows(object_color="green", camera_height="top", vertical_axis=1)
    numbers = np.arange(np.prod(MPI3D_SIZES)).reshape(MPI3D_SIZES)
    np.testing.assert_array_equal(np.sort(rows), numbers[1, :, :, 0, :, :, 1].reshape(-1))


# ------------------------------------------------------------------------------------------- damaged files


def _npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


FOUR = np.zeros((4, 2, 2, 3), np.uint8)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("images", _npy(FOUR)[:-1], "and no other bytes"),
        ("images", _npy(FOUR) + b"x", "and no other bytes"),
        ("images", _npy(FOUR).replace(b"(4, 2,", b"(4000000000, 2,")[:128], "and no other bytes"),
        ("images", _npy(FOUR.astype(np.float32)), "expected uint8, got float32"),
        ("images", _npy(FOUR[..., 0]), "expected images of three channels"),
        ("images", _npy(np.asfortranarray(FOUR)), "in C order"),
        ("images", _npy(np.array([Hostile()], object)), "is pickled, which is not read"),
        ("images", b"no array", "cannot be read"),
        ("labels", _npy(FOUR), "expected an array `images`, got labels.npy"),
    ],
)
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_npz_is_refused_before_memory_is_allocated(tmp_path, method, name, data, message):
    with zipfile.ZipFile(tmp_path / "mpi3d_toy.npz", "w", method) as archive:
        archive.writestr(f"{name}.npy", data)
    with refused(rf"\A.*{message}.*\Z"):
        MPI3D(tmp_path, sizes=MPI3D_SIZES, cache=tmp_path / "cache")


def test_truncated_files_are_refused(mpi3d, own_copy):
    for path, kind, options in (
        (mpi3d / "mpi3d_toy.npz", MPI3D, {"sizes": MPI3D_SIZES}),
        (own_copy("shapes3d") / "3dshapes.h5", Shapes3D, {}),
    ):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with refused("cannot be read"):
            kind(path.parent, **options)


def test_a_flipped_bit_is_found_when_unpacking(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (16, 32, 32, 3), np.uint8)  # more than one block
    np.savez_compressed(tmp_path / "mpi3d_real.npz", images=images)
    data = bytearray((tmp_path / "mpi3d_real.npz").read_bytes())
    data[len(data) // 2] ^= 4
    (tmp_path / "mpi3d_real.npz").write_bytes(data)
    with refused("cannot be read"):
        MPI3D(tmp_path, "real", sizes=MPI3D_SIZES, cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_file_truncated_while_reading_is_refused(mpi3d):
    data = MPI3D(mpi3d, sizes=MPI3D_SIZES)
    path = mpi3d / "mpi3d_toy.npz"
    path.write_bytes(path.read_bytes()[:800])
    assert len(data[0]["image"]) == 3
    with refused(r"mpi3d_toy\.npz: is cut off; get the file again"):
        data[15]


def _external(file, folder):
    (folder / "raw").write_bytes(bytes(4 * 12))
    storage = [(str(folder / "raw"), 0, h5py.h5f.UNLIMITED)]
    file.create_dataset("images", (4, 2, 2, 3), np.uint8, external=storage)


def _linked(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["images"] = FOUR
    file["images"] = h5py.ExternalLink(str(folder / "other.h5"), "images")


def _virtual(file, folder):
    layout = h5py.VirtualLayout((4, 2, 2, 3), np.uint8)
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "images", (4, 2, 2, 3))
    file.create_virtual_dataset("images", layout)


@pytest.mark.parametrize("point", [_external, _linked, _virtual])
def test_hdf5_that_refers_to_other_files_is_refused(tmp_path, point):
    with h5py.File(tmp_path / "3dshapes.h5", "w") as file:
        file["labels"] = grid(SHAPES3D_VALUES)
        point(file, tmp_path)
    with refused("refers to other files"):
        Shapes3D(tmp_path)


def test_rows_that_are_not_a_grid_in_order_are_refused(tmp_path):
    write_shapes3d(tmp_path, labels=grid(SHAPES3D_VALUES)[::-1])
    with refused("not those of a full grid in order"):
        Shapes3D(tmp_path)
