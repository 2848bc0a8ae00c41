import errno
import os

import pytest

from loaders.files.atomic_files import replacing


@pytest.mark.parametrize("named", [True, False])
def test_a_file_that_cannot_be_written_is_named_as_it_was_given(tmp_path, named):
    """And not by the name that it has while it is written."""
    path = tmp_path / "plan.parquet"

    def write():
        with replacing(path) as partial:
            partial.write_text("half")
            name = [str(partial)] if named else []
            raise OSError(errno.ENOSPC, f"Failed to write local file '{partial}'", *name)

    with pytest.raises(OSError, match=r"^\[Errno 28\] No space left on device: '[^']*/plan\.parquet'$"):
        write()
    assert not list(tmp_path.iterdir())


def test_another_file_that_cannot_be_read_meanwhile_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"'elsewhere'"), replacing(tmp_path / "plan.parquet"):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "elsewhere")
