import os
import shutil
from pathlib import Path

import pytest

import candlelight.loaders


def test_paths_may_be_text(frames_root, tmp_path):
    pytest.importorskip("torch", exc_type=ImportError)
    from candlelight.loaders.exports import export_webdataset

    frames, out = str(frames_root), str(tmp_path)
    (file,) = candlelight.loaders.pack_hdf5(frames, f"{out}/h5", ["grid"])
    pack = candlelight.loaders.pack_hub(frames, f"{out}/hub", ["grid"])
    opened = [candlelight.loaders.open_frames(str(path), "grid") for path in (frames, file, pack)]
    assert [len(one) for one in opened] == [6, 6, 6]
    assert candlelight.loaders.verify(frames) == candlelight.loaders.verify(frames_root)
    assert candlelight.loaders.push_hub(str(pack), "org/name", dry_run=True).files
    assert candlelight.loaders.draw_sheet(frames, f"{out}/sheet.png", "grid").is_file()
    assert export_webdataset(frames, f"{out}/tar", "grid").written == 6


def test_names_need_not_be_utf8(frames_root, tmp_path):
    """Old archives have names in Latin-1; pyarrow opens no such path."""
    folder = Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9"))
    try:
        shutil.copytree(frames_root, folder)
    except OSError:
        pytest.skip("the file system has UTF-8 names alone")
    hub, hdf5 = folder.with_name(f"hub{folder.name}"), folder.with_name(f"hdf5{folder.name}")
    (file,) = candlelight.loaders.pack_hdf5(folder, hdf5, ["grid"])
    pack = candlelight.loaders.pack_hub(folder, hub, ["grid"])
    assert [len(candlelight.loaders.open_frames(path, "grid")) for path in (folder, file, pack)] == [6, 6, 6]
    assert list(candlelight.loaders.look(pack).sets) == ["grid"]
    assert candlelight.loaders.verify(folder).checked == 11
