import zlib

import pytest

from candlelight.loaders.files import safe_decoding as module
from candlelight.loaders.files.safe_decoding import inflate
from tests.refusals import refused


def raw(data):
    packer = zlib.compressobj(4, wbits=module.RAW)
    return packer.compress(data) + packer.flush()


DATA = bytes(range(256)) * 40


def test_bytes_are_restored():
    assert inflate(zlib.compress(DATA, 4), len(DATA)) == DATA
    assert inflate(raw(DATA), len(DATA), module.RAW) == DATA
    assert inflate(zlib.compress(b""), 0) == b""


def test_oversized_data_give_one_byte_more_than_the_limit():
    bomb = zlib.compress(bytes(2**26))
    assert [len(inflate(bomb, most)) for most in (0, 1, 1000, 2**20)] == [1, 2, 1001, 2**20 + 1]


@pytest.mark.parametrize("cut", [1, 4, 30])
def test_an_early_end_is_refused(cut):
    with refused("its compressed bytes end early"):
        inflate(zlib.compress(DATA)[:-cut], len(DATA))


def test_a_changed_byte_or_checksum_is_refused():
    packed = bytearray(zlib.compress(DATA))
    packed[-1] ^= 1
    with pytest.raises(Exception, match=r"(?i)check"):
        inflate(bytes(packed), len(DATA))


def test_checksums_agree():
    assert module.crc32(DATA) == zlib.crc32(DATA)
