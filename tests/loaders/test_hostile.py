"""Malicious files, made to reach other paths or to fill memory: each is refused in one line or harmless."""

import json
import shutil
import struct
import zipfile
import zlib
from contextlib import suppress

import h5py
import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from candlelight.cli import main
from candlelight.loaders.errors import InputError
from candlelight.loaders.exports import export_concepts
from candlelight.loaders.files.plain_yaml import LARGEST, LONGEST, VALUE, parse_yaml
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import frame_path, read_frame, write_dataset_info
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5
from candlelight.loaders.hub.card import card
from candlelight.loaders.hub.read_hub import HubFrames
from candlelight.loaders.hub.set_facts import read_facts
from candlelight.loaders.hub.write_hub import pack_hub
from candlelight.loaders.looking.look import describe
from candlelight.loaders.open_frames import open_frames
from candlelight.loaders.packs.pack_manifest import read_pack_manifest
from candlelight.loaders.schema import AssetRecord, FactorInfo

CLIMBING = ("../up", "/etc", "a/b", "..", ".", ".hidden", "a\nb", "a\0b", "", "~", "C:\\x")


@pytest.fixture
def secret(tmp_path):
    """Write files that no reader may open."""
    path = tmp_path / "secret.h5"
    with h5py.File(path, "w") as file:
        file["index"] = np.arange(5)
        file["depth"] = np.zeros((5, 24, 32), np.float32)
    (tmp_path / "secret.bin").write_bytes(b"secret" * 10000)
    return path


# ------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("name", CLIMBING)
def test_sets_with_paths_as_names_are_neither_read_nor_packed(frames_copy, info, tmp_path, name):
    hostile = info.model_copy(update={"sets": {name: info.sets["grid"]}})
    write_dataset_info(frames_copy, hostile)
    for use in (
        lambda: FrameFolder(frames_copy, name),
        lambda: open_frames(frames_copy),
        lambda: pack_hdf5(frames_copy, tmp_path / "out"),
        lambda: pack_hub(frames_copy, tmp_path / "out"),
        lambda: describe(frames_copy),
    ):
        with pytest.raises(InputError, match="expected letters, digits"):
            use()
    assert {path.name for path in tmp_path.iterdir()} == {"frames"}


def edit_metadata(frames, set_name, **changes):
    for path in frames.glob(f"samples/{set_name}/*/*/metadata.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        path.with_name("SHA256SUMS").unlink(missing_ok=True)  # a forger would replace the checksums too


def test_metadata_do_not_decide_the_paths_of_samples(frames_copy, tmp_path):
    """Paths follow from the folder of a sample, not from its metadata."""
    edit_metadata(frames_copy, "grid", id="../../../up", unit="..", group="/etc/passwd")
    (path,) = pack_hdf5(frames_copy, tmp_path / "packed", sets=["grid"])
    assert path == tmp_path / "packed" / "grid.h5"
    pack_hub(frames_copy, tmp_path / "packed" / "hub", sets=["grid"])
    edit_metadata(frames_copy, "grid", set="../up")
    with pytest.raises(InputError, match=r"holds sample 0 of set `\.\./up`; delete it"):
        pack_hdf5(frames_copy, tmp_path / "packed", sets=["grid"])
    assert {path.name for path in tmp_path.iterdir()} == {"frames", "packed"}


@pytest.mark.parametrize(
    ("name", "value"), [("temperature", "/../../up"), ("material", "../up"), ("scene", "..")]
)
def test_exports_write_only_inside_their_folder(frames_copy, info, tmp_path, name, value):
    factors = {"scene": "cube", "texturing": "rgb", "temperature": 2500, "material": 0, "light_azimuth": 10}
    listed = {**factors, name: value}
    infos = tuple(FactorInfo(name=n, kind="categorical", values=(v,)) for n, v in listed.items())
    concepts = info.sets["grid"].model_copy(update={"factors": infos, "varies": ("light_azimuth",)})
    write_dataset_info(frames_copy, info.model_copy(update={"sets": {"grid": concepts}}))
    edit_metadata(frames_copy, "grid", factors=listed)
    with pytest.raises(InputError, match=f"{name} `.*`: expected .* to name a folder"):
        export_concepts(frames_copy, tmp_path / "out")
    assert not [path for path in tmp_path.rglob("*.png") if not path.is_relative_to(frames_copy)]


# -------------------------------------------------------------------------------------------------- HDF5


@pytest.fixture
def packed(frames_root, tmp_path):
    (path,) = pack_hdf5(frames_root, tmp_path / "hdf5", sets=["free"])
    return path


def external_link(file, secret):
    del file["depth"]
    file["depth"] = h5py.ExternalLink(str(secret), "depth")


def external_index(file, secret):
    del file["index"]
    file["index"] = h5py.ExternalLink(str(secret), "index")


def external_group(file, secret):
    del file["factors"]
    file["factors"] = h5py.ExternalLink(str(secret), "/")


def soft_link(file, secret):
    del secret, file["depth"]
    file["depth"] = h5py.SoftLink("/position")


def raw_bytes(file, secret):
    del file["depth"]
    file.create_dataset(
        "depth", (5, 24, 32), np.float32, external=[(str(secret.with_suffix(".bin")), 0, 15360)]
    )


def virtual(file, secret):
    del file["depth"]
    layout = h5py.VirtualLayout((5, 24, 32), np.float32)
    layout[...] = h5py.VirtualSource(str(secret), "depth", (5, 24, 32))
    file.create_virtual_dataset("depth", layout)


def endless(file, secret):
    del secret, file["index"]
    file.create_dataset("index", (10**12,), np.int64, chunks=(1024,))


def vast(file, secret):
    del secret
    text = json.loads(file.attrs["dataset"])
    text["sets"]["free"] |= {"width": 2**20, "height": 2**20}
    file.attrs["dataset"] = np.bytes_(json.dumps(text))


@pytest.mark.parametrize(
    ("trick", "message"),
    [
        (external_link, "expected `depth` in the file itself, got a link; pack it again"),
        (external_index, "expected `index` in the file itself, got a link"),
        (external_group, "expected `factors` in the file itself, got a link"),
        (soft_link, "expected `depth` in the file itself, got a link"),
        (raw_bytes, "expected `depth` in the file itself, got bytes of another file; pack it again"),
        (virtual, "expected `depth` in the file itself, got bytes of another file"),
        (endless, "dataset `index`: expected it in one piece, got chunks of .1024.; pack it again"),
        (vast, "expected at most 67108864 pixels, got 1048576 x 1048576"),
    ],
)
def test_hdf5_files_with_links_or_huge_sizes_are_refused(packed, secret, trick, message):
    with h5py.File(packed, "r+") as file:
        trick(file, secret)
    with pytest.raises(InputError, match=message) as caught:
        HDF5Frames(packed)
    assert "\n" not in str(caught.value)


# -------------------------------------------------------------------------------------------- zip and PNG


def sample(frames):
    return frame_path(frames, "grid", 0)


def test_npz_entries_with_paths_as_names_are_never_unpacked(frames_copy, tmp_path):
    path = sample(frames_copy) / "layers.npz"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../../../../../up.npy", b"up")
        archive.writestr("/tmp/candlelight-up.npy", b"up")
    before = {path for path in tmp_path.rglob("*")}
    assert "depth" in read_frame(sample(frames_copy), verify=True).layers
    assert {path for path in tmp_path.rglob("*")} == before


def npy(header):
    text = str(header).ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            {"descr": "<f4", "fortran_order": False, "shape": (2**20, 2**20)},
            r"got float32 \[1048576, 1048576\]",
        ),
        ({"descr": "|O", "fortran_order": False, "shape": (24, 32)}, r"got object \[24, 32\]"),
        ("__import__('os').system('true')", "cannot be read: "),
    ],
)
def test_an_npz_is_refused_by_its_header(frames_copy, header, message):
    """Arrays that would fill memory, and pickled objects, are not read."""
    path = sample(frames_copy) / "layers.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("depth.npy", npy(header) + b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(InputError, match=message):
        read_frame(sample(frames_copy), ["depth"])


def chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


@pytest.mark.parametrize("kind", [b"iCCP", b"zTXt", b"IDAT"])
def test_a_png_bomb_takes_little_memory(frames_copy, kind):
    """The bomb is a chunk of 100 MB of zeros, as metadata or as pixels."""
    import resource

    path = sample(frames_copy) / "image.png"
    bomb = zlib.compress(bytes(10**8))
    named = bomb if kind == b"IDAT" else b"x\0\0" + bomb
    data = path.read_bytes()
    path.write_bytes(data[:33] + chunk(kind, named) + data[33:])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with suppress(InputError):
        read_frame(sample(frames_copy), ["image"])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # kB


# --------------------------------------------------------------------------------------------------- hub


@pytest.fixture
def hub(frames_root, tmp_path):
    return pack_hub(frames_root, tmp_path / "hub", sets=["free"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("path: free/train-*.parquet", "path: ../secret-*.parquet"),
        ("path: free/train-*.parquet", "path: https://localhost:1/secret.parquet"),
        ("path: free/train-*.parquet", "path: /etc/passwd"),
        ("- config_name: free\n  data_files", "- config_name: free\n  data_dir: /etc\n  data_files"),
        ("configs:", "configs: 7\nothers:"),
        ("configs:", f"bomb: {'[' * 1500}\nconfigs:"),
        ("---\n", "---\nconfigs: 7\n---\n"),
        ("pretty_name: tiny\n", "pretty_name: tiny ---\n"),
    ],
)
def test_the_manifest_decides_the_rows_and_not_the_card(hub, old, new):
    card = hub / "README.md"
    assert old in card.read_text()
    card.write_text(card.read_text().replace(old, new, 1))
    assert HubFrames(hub, "free").indices.tolist() == [0, 1, 2, 4, 5]


def test_settings_with_other_files_are_refused(hub):
    (hub / ".huggingface.yaml").write_text("configs: [{config_name: free, data_files: ../secret.parquet}]")
    with pytest.raises(InputError, match=r"\.huggingface\.yaml makes `datasets` read files of no pack"):
        HubFrames(hub, "free")


def test_packing_over_a_manifest_with_foreign_files_is_refused(hub, frames_root):
    shutil.copy(hub / "dataset.json", hub / "thesis.tex")
    text = json.loads((hub / "manifest.json").read_text())
    text["files"].append({**text["files"][0], "path": "thesis.tex"})
    (hub / "manifest.json").write_text(json.dumps(text))
    with pytest.raises(InputError, match=r"damaged at files\.1\.path"):
        pack_hub(frames_root, hub)
    assert (hub / "thesis.tex").exists()


# -------------------------------------------------------------------------------------------------- YAML


LAUGHS = "a0: &a0 lol\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30))
MERGED = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}\n" for i in range(1, 30)
)
LONG = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 200)}]\n"


@pytest.mark.parametrize("text", [LAUGHS, MERGED, LONG], ids=["lists", "merges", "texts"])
def test_yaml_bombs_are_refused(text):
    with pytest.raises(InputError, match=f"expected at most {LARGEST // VALUE} values, got more once all"):
        parse_yaml(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &a [*a]", "expected fields of finite depth"),
        ("[" * 1500, "expected fields of finite depth"),
        ("!!python/object/apply:os.system [true]", "expected YAML, got something else: could not determine"),
        ("9" * 5000, "expected YAML, got something else: Exceeds the limit"),
        ("a: 1\n---\nb: 2", "expected YAML, got something else: expected a single document"),
        ("\0", "expected YAML, got something else: unacceptable character"),
    ],
)
def test_yaml_other_than_plain_values_is_refused_in_one_line(text, message):
    with pytest.raises(InputError, match=message) as caught:
        parse_yaml(text)
    assert "\n" not in str(caught.value)


def test_yaml_within_the_limit_is_read():
    text = f"a: &a [{', '.join(['1'] * 1000)}]\nb: [{', '.join(['*a'] * 100)}]\n"
    assert [len(item) for item in parse_yaml(text)["b"]] == [1000] * 100
    assert parse_yaml("") is None
    assert parse_yaml("x: {<<: {y: 1}, z: 2}") == {"x": {"y": 1, "z": 2}}


def test_long_yaml_is_refused_before_it_is_read():
    with pytest.raises(InputError, match=f"expected at most {LONGEST} characters, got {LONGEST + 1}"):
        parse_yaml("#" * (LONGEST + 1))


# ------------------------------------------------------------------------------------- text from elsewhere

ESCAPES = "red\x1b[2J\x9b1A\nset forged: 9 of 9\u202eelpmas\x7f"
SHOWN = r"red\u001b[2J\u009b1A\u000aset forged: 9 of 9\u202eelpmas\u007f"


def with_text(info, text):
    """Put a text everywhere where a data set may have one."""
    factors = (FactorInfo(name="shape", kind="categorical", values=("cube", text), unit=text),)
    sets = {"grid": info.sets["grid"].model_copy(update={"factors": factors, "varies": (text,)})}
    return info.model_copy(update={"description": text, "licence": text, "sets": sets})


@pytest.mark.parametrize("as_json", [False, True])
def test_escape_sequences_are_not_printed(frames_copy, info, as_json):
    edit_metadata(frames_copy, "grid", factors={"shape": ESCAPES})
    write_dataset_info(frames_copy, with_text(info, ESCAPES))
    words = ["info", str(frames_copy), *(["--json"] if as_json else [])]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    lines = result.output.rstrip("\n").split("\n")
    assert all(character.isprintable() for line in lines for character in line)
    if as_json:
        assert json.loads(result.output)["description"] == ESCAPES
    else:
        assert SHOWN in result.output
        assert not any(line.startswith("set forged") for line in lines)


def test_messages_hold_no_escape_sequences():
    assert str(InputError(f"factor `{ESCAPES}`")) == f"factor `{SHOWN}`".replace(r"\u000a", " ")


def test_a_card_shows_markup_as_text(hub, info):
    markdown_it = pytest.importorskip("markdown_it")
    hostile = "<script>alert(1)</script> ![x](https://evil/x.png) <img src=//evil/y>\n# [a](b) `c`"
    manifest = read_pack_manifest(hub)
    name = "free"
    factors = tuple(
        factor.model_copy(update={"unit": hostile})
        if factor.kind == "continuous"
        else factor.model_copy(update={"values": (hostile, *(factor.values or ())[1:])})
        for factor in info.sets[name].factors
    )
    one = info.sets[name].model_copy(update={"factors": factors, "varies": (hostile,)})
    asset = AssetRecord(label=hostile, kind="objects", sha256="a" * 64, licence=hostile, source=hostile)
    changed = {"name": hostile, "description": hostile, "licence": hostile, "assets": (asset,)}
    hostile_info = info.model_copy(update={**changed, "sets": {name: one}})
    text = card(hostile_info, manifest, {name: read_facts(hub, info.sets[name], manifest.of_set(name))})
    _, front, body = text.split("---\n", 2)
    assert yaml.safe_load(front)["pretty_name"] == hostile
    page = markdown_it.MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(body)
    assert "<script" not in page
    assert "<img" not in page
    assert "<a " not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt; ![x](https://evil/x.png)") >= 7
