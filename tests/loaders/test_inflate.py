import sys
import zlib
from importlib import reload

import pytest

from loaders import inflate as module
from loaders.errors import InputError


@pytest.fixture(params=["isal", "zlib"])
def inflate(request, monkeypatch):
    """The function with either library behind it; it must not tell which."""
    if request.param == "zlib":
        monkeypatch.setitem(sys.modules, "isal", None)
    else:
        pytest.importorskip("isal")
    yield reload(module).inflate
    monkeypatch.undo()
    reload(module)


def raw(data):
    packer = zlib.compressobj(4, wbits=module.RAW)
    return packer.compress(data) + packer.flush()


DATA = bytes(range(256)) * 40


def test_either_library_gives_the_same_bytes(inflate):
    assert inflate(zlib.compress(DATA, 4), len(DATA)) == DATA
    assert inflate(raw(DATA), len(DATA), module.RAW) == DATA
    assert inflate(zlib.compress(b""), 0) == b""


def test_what_unpacks_to_more_gives_one_byte_more(inflate):
    bomb = zlib.compress(bytes(2**26))
    assert [len(inflate(bomb, most)) for most in (0, 1, 1000, 2**20)] == [1, 2, 1001, 2**20 + 1]


@pytest.mark.parametrize("cut", [1, 4, 30])
def test_an_early_end_is_refused(inflate, cut):
    with pytest.raises(InputError, match="its compressed bytes end early"):
        inflate(zlib.compress(DATA)[:-cut], len(DATA))


def test_a_changed_byte_or_checksum_is_refused(inflate):
    packed = bytearray(zlib.compress(DATA))
    packed[-1] ^= 1
    with pytest.raises(Exception, match=r"(?i)check"):
        inflate(bytes(packed), len(DATA))


def test_checksums_agree(inflate):
    assert module.crc32(DATA) == zlib.crc32(DATA)
