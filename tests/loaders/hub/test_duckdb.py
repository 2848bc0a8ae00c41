"""DuckDB reads a pack."""

import numpy as np
import pytest

from candlelight.loaders import FrameFolder
from candlelight.loaders.hub.write_hub import pack_hub

pytestmark = pytest.mark.oracle


def test_queries_count_factors_and_read_arrays(frames_root, tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="the extra `oracles` is not installed")
    files = pack_hub(frames_root, tmp_path / "hub") / "grid" / "*.parquet"
    frames = FrameFolder(frames_root, "grid")
    counted = duckdb.sql(f"select color, count(*) from '{files}' group by all order by color").fetchall()
    colours = [frames.metadata(row).factors["color"] for row in range(len(frames))]
    assert [count for _, count in counted] == [
        colours.count(one) for one in sorted({*colours}, key=colours.index)
    ]
    rows = duckdb.sql(f"select id, depth, object.bytes from '{files}' order by id").fetchall()
    for row, (name, depth, png) in enumerate(rows):
        frame = frames.frame(row)
        assert name == frame.metadata.id
        np.testing.assert_array_equal(np.array(depth, np.float32), frame.layers["depth"])
        assert png.startswith(b"\x89PNG")
    # Once DuckDB reads layers in half precision too, docs/publishing.md can say so.
    with pytest.raises(duckdb.Error, match="BYTE_STREAM_SPLIT encoding is only supported for FLOAT"):
        duckdb.sql(f"select albedo from '{files}'").fetchall()
