import pytest

import candlelight.loaders


def test_paths_may_be_text(frames_root, tmp_path):
    pytest.importorskip("torch", exc_type=ImportError)
    from candlelight.loaders.exports import export_webdataset

    frames, out = str(frames_root), str(tmp_path)
    (file,) = candlelight.loaders.pack_hdf5(frames, f"{out}/h5", ["grid"])
    pack = candlelight.loaders.pack_hub(frames, f"{out}/hub", ["grid"])
    assert [len(candlelight.loaders.open_frames(str(path), "grid")) for path in (frames, file, pack)] == [
        6,
        6,
        6,
    ]
    assert candlelight.loaders.verify(frames) == candlelight.loaders.verify(frames_root)
    assert candlelight.loaders.push_hub(str(pack), "org/name", dry_run=True).files
    assert candlelight.loaders.draw_sheet(frames, f"{out}/sheet.png", "grid").is_file()
    assert export_webdataset(frames, f"{out}/tar", "grid").written == 6
