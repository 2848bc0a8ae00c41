import ast
import io
import json
import shutil
import subprocess
import sys
import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from candlelight.loaders.errors import InputError
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.read_hub import HubFrames
from candlelight.loaders.hub.shards import ROW_GROUP_BYTES
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.packs.pack_manifest import read_pack_manifest
from candlelight.loaders.packs.split_plan import SplitPlan


def load_benchmark():
    path = Path(__file__).parents[3] / "benchmarks" / "trials" / "clients.py"
    spec = spec_from_file_location("benchmark_clients", path)
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


clients = load_benchmark()


@pytest.fixture(scope="module")
def packs(tmp_path_factory, frames_root):
    """Pack the small data set as HDF5 and as a Hugging Face folder."""
    folder = tmp_path_factory.mktemp("packs")
    pack_hub(frames_root, folder / "hub")
    pack_hdf5(frames_root, folder / "hdf5")
    return folder


@pytest.mark.parametrize("what", clients.checks())
def test_clients_read_every_row_without_a_warning(datasets, packs, frames_root, what):
    pytest.importorskip("torch")
    for name in ("grid", "free"):
        found = clients.outcome(clients.checks()[what], packs, clients.Frames(frames_root, name), name)
        if found.startswith("not installed"):
            pytest.skip(found)
        assert found == "right"


@pytest.mark.parametrize("what", ["datasets, hub, streaming, numpy", "h5py", "pyarrow"])
def test_the_checks_can_fail(datasets, packs, frames_copy, what):
    def outcome():
        return clients.outcome(clients.checks()[what], packs, clients.Frames(frames_copy, "free"), "free")

    frame = next(path for path in (frames_copy / "samples" / "free").glob("*/*"))
    image = np.asarray(Image.open(frame / "image.png")).copy()
    image[3, 4, 1] ^= 1
    Image.fromarray(image).save(frame / "image.png")
    assert (
        outcome()
        == f"WRONG: ValueError: {json.loads((frame / 'metadata.json').read_text())['id']}: image differs"
    )
    shutil.rmtree(frame)
    assert outcome().startswith("WRONG: KeyError")


def test_warnings_are_reported():
    def warn(folder, frames, name):
        warnings.warn("old\nspelling", DeprecationWarning, stacklevel=1)

    assert clients.outcome(warn, Path(), None, "") == "WARNED: DeprecationWarning: old spelling"


def test_splits_load_by_name_even_with_dots(datasets, frames_root, tmp_path):
    plan = SplitPlan(factor="color", values={"train": ("red",), "ood.1": ("blue",)})
    out = pack_hub(frames_root, tmp_path / "out", sets=["grid"], plan=plan)
    names = datasets.get_dataset_split_names(str(out), "grid")
    assert sorted(names) == ["ood.1", "train"]
    for split, value in (("train", 0), ("ood.1", 1)):
        rows = datasets.load_dataset(str(out), "grid", split=split, cache_dir=str(tmp_path / "cache"))
        assert rows["color"][:] == [value] * 3
        (shard,) = read_pack_manifest(out).of_split("grid", split)
        assert shard.path == f"grid/{split}-00000-of-00001.parquet"


def test_array_columns_name_their_extension_type(packs):
    """Without the extension type, `datasets` reads nested lists at a tenth of the speed."""
    (path,) = (packs / "hub" / "grid").iterdir()
    # In a separate process: after an import of `datasets`, pyarrow converts the names to types.
    code = "import sys, pyarrow.parquet as pq; print(pq.read_schema(sys.argv[1]).field(sys.argv[2]).metadata)"
    for name, shape, dtype in (("albedo", [3, 24, 32], "float16"), ("depth", [24, 32], "float32")):
        done = subprocess.run([sys.executable, "-c", code, path, name], capture_output=True, check=True)
        assert ast.literal_eval(done.stdout.decode()) == {
            b"ARROW:extension:name": f"datasets.features.features.Array{len(shape)}DExtensionType".encode(),
            b"ARROW:extension:metadata": json.dumps([shape, dtype]).encode(),
        }


def test_the_viewer_of_the_hub_can_show_every_picture(packs):
    """The viewer writes each cell of an Image column as JPEG or PNG, which do not store modes F and I."""
    (path,) = (packs / "hub" / "grid").iterdir()
    features = json.loads(pq.read_schema(path).metadata[b"huggingface"])["info"]["features"]
    pictures = [name for name, feature in features.items() if feature == {"_type": "Image"}]
    assert pictures[0] == next(iter(features)) == "image"
    for name in pictures:
        for cell in pq.read_table(path, columns=[name])[name]:
            with Image.open(io.BytesIO(cell["bytes"].as_py())) as picture:
                assert picture.mode in ("RGB", "L")
                picture.save(io.BytesIO(), "JPEG")
    assert ROW_GROUP_BYTES <= 100 * 2**20


def test_row_groups_stay_below_their_limit_in_memory(frames_root, tmp_path, monkeypatch):
    monkeypatch.setattr("candlelight.loaders.hub.shards.ROW_GROUP_BYTES", 150_000)
    out = pack_hub(frames_root, tmp_path / "out", sets=["grid"])
    (path,) = (out / "grid").iterdir()
    file = pq.ParquetFile(path)
    sizes = [file.read_row_group(group).nbytes for group in range(file.num_row_groups)]
    assert len(sizes) > 1
    assert max(sizes) <= 1.05 * 150_000


def test_a_truncated_shard_is_named(datasets, packs, tmp_path):
    copy = shutil.copytree(packs / "hub", tmp_path / "hub")
    (path,) = (copy / "grid").iterdir()
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"train-00000-of-00001.parquet: expected \d+ bytes, got \d+"):
        HubFrames(copy, "grid")
    with pytest.raises(Exception, match="magic bytes"):
        datasets.load_dataset(str(copy), "grid", cache_dir=str(tmp_path / "cache"))


def test_class_labels_are_integers_for_other_readers(packs):
    """Readers without `datasets` see class labels as plain integers."""
    table = pq.read_table(packs / "hub" / "grid", partitioning=None)
    assert table.schema.field("color").type == pa.int64()
    assert table["value_size"].to_pylist() == [1.5, 2.0, 2.5] * 2
