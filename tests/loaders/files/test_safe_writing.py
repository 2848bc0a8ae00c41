import errno
import os

import pytest

from candlelight.loaders.files.safe_writing import replacing


@pytest.mark.parametrize("named", [True, False])
def test_a_failed_write_names_the_final_path(tmp_path, named):
    """The error does not name the temporary file."""
    path = tmp_path / "plan.parquet"

    def write():
        with replacing(path) as partial:
            partial.write_text("half")
            name = [str(partial)] if named else []
            raise OSError(errno.ENOSPC, f"Failed to write local file '{partial}'", *name)

    with pytest.raises(OSError, match=r"^\[Errno 28\] No space left on device: '[^']*/plan\.parquet'$"):
        write()
    assert not list(tmp_path.iterdir())


def test_errors_of_other_files_keep_their_path(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"'elsewhere'"), replacing(tmp_path / "plan.parquet"):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "elsewhere")
