"""Options of `candlelight pack` and `export` that belong to another format."""

import pytest
from click.testing import CliRunner

from candlelight.cli import main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pack", "--to", "hub", "--compression", "gzip"], "--compression is for --to hdf5, not hub"),
        (["export", "--to", "mit", "--layout", "flat"], "--layout is for --to candle, not mit"),
        (
            ["export", "--to", "webdataset", "--bounds", "exact"],
            "--bounds is for --to candle, not webdataset",
        ),
        (["export", "--to", "candle", "--by", "paper"], "--by is for --to mit, not candle"),
        (
            ["export", "--to", "concepts", "--shard-size", "9"],
            "--shard-size is for --to webdataset, not conc",
        ),
    ],
)
def test_options_of_another_format_are_refused(frames_root, tmp_path, words, message):
    command, *options = words
    result = CliRunner().invoke(main, [command, str(frames_root), *options, "--out", str(tmp_path / "out")])
    assert (result.exit_code, message in result.output, result.output.count("\n")) == (2, True, 1)
    assert not (tmp_path / "out").exists()


def test_options_of_the_chosen_format_are_accepted(frames_root, tmp_path):
    words = ["pack", str(frames_root), "--sets", "free", "--layers", "image", "--compression", "none"]
    result = CliRunner().invoke(main, [*words, "--to", "hdf5", "--out", str(tmp_path)])
    assert (result.exit_code, result.output) == (0, f"{tmp_path / 'free.h5'}\n")
