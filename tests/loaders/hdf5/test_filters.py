import sys
import zlib

import h5py
import numpy as np
import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.hdf5.filters import dataset_filters, encode_chunk

RNG = np.random.default_rng(2)
ARRAYS = [
    RNG.integers(0, 9, (24, 32, 3), np.uint8),
    RNG.random((24, 32, 3)).astype(np.float16),
    RNG.random((24, 32)).astype(np.float32),
    np.full((1, 1), np.inf, np.float32),
    RNG.integers(0, 256, (8, 8), np.uint8),  # Blosc skips its filter if it saves nothing
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{list(array.shape)}")
@pytest.mark.parametrize("compression", ["gzip", "none", "zstd", "blosc"])
def test_hdf5_reads_encoded_chunks(tmp_path, array, compression):
    if compression in ("zstd", "blosc"):
        pytest.importorskip("hdf5plugin")
    mask, chunk = encode_chunk(array, compression)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        filters = dataset_filters(array.dtype, compression)
        dataset = file.create_dataset(
            "x", (1, *array.shape), array.dtype, chunks=(1, *array.shape), **filters
        )
        dataset.id.write_direct_chunk((0,) * dataset.ndim, chunk, mask)
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["x"][0].tobytes() == array.tobytes()


def test_shuffle_groups_bytes_by_significance():
    array = np.array([0x0102, 0x0304], "<u2").view(np.float16)
    assert zlib.decompress(encode_chunk(array, "gzip")[1]) == bytes([2, 4, 1, 3])
    array = np.array([[0x01020304], [0x05060708]], "<u4").view(np.float32)
    assert zlib.decompress(encode_chunk(array, "gzip")[1]) == bytes([4, 8, 3, 7, 2, 6, 1, 5])
    strided = RNG.random((4, 6, 3)).astype(np.float16)[:, ::2]
    assert encode_chunk(strided, "gzip") == encode_chunk(strided.copy(), "gzip")


def test_floats_are_shuffled_and_8_bit_pixels_are_not():
    assert dataset_filters(np.dtype("uint8"), "gzip")["shuffle"] is False
    assert dataset_filters(np.dtype("float32"), "gzip")["shuffle"] is True
    assert dataset_filters(np.dtype("float32"), "none") == {}


def test_unknown_and_missing_compressions_are_refused(monkeypatch):
    with pytest.raises(InputError, match="compression: expected one of gzip, none, zstd, blosc, got lzf"):
        dataset_filters(np.dtype("uint8"), "lzf")
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)
    with pytest.raises(InputError, match=r"zstd needs hdf5plugin: `pip install hdf5plugin`, or choose"):
        dataset_filters(np.dtype("uint8"), "zstd")
