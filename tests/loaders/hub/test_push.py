import base64
import hashlib
import json
import subprocess
import threading
from argparse import Namespace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner
from huggingface_hub import constants
from huggingface_hub.utils import disable_progress_bars, enable_progress_bars

from candlelight.cli import main
from candlelight.loaders.hub.push import push_hub
from candlelight.loaders.hub.write_hub import pack_hub
from tests.loaders.edits import contents
from tests.refusals import refused

TOKEN = "hf_" + "x" * 34
# huggingface_hub 2.4 passes files to httpx in a deprecated way.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


class Hub(ThreadingHTTPServer):
    """A server on loopback that answers the calls of an upload to the Hub; it keeps all files in memory."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.repos, self.objects, self.commits, self.asked = {}, {}, [], []
        self.private, self.drop_after, self.writable = {}, None, True

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def reply(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            pieces = []
            while size := int(self.rfile.readline(), 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_POST(self):
        hub, path = self.server, self.path.partition("?")[0]
        data = self.body()
        hub.asked.append((self.command, path))
        if self.headers.get("authorization") != f"Bearer {TOKEN}" and not path.startswith("/store/"):
            return self.reply({"error": "Invalid credentials"}, 401)
        if path == "/api/whoami-v2":
            return self.reply({"type": "user", "name": "me", "orgs": []})
        if path == "/api/repos/create":
            return self.create(json.loads(data))
        if path == "/api/validate-yaml":
            return self.reply({"errors": [], "warnings": []})
        if path.startswith("/store/"):
            return self.store(path.rpartition("/")[2], data)
        if path.endswith("/info/lfs/objects/batch"):
            return self.batch(json.loads(data))
        return self.repo(path.removeprefix("/api/datasets/").split("/"), data)

    def create(self, asked):
        name = f"{asked.get('organization') or 'me'}/{asked['name']}"
        if not self.server.writable:
            return self.reply({"error": "You don't have the rights"}, 403)
        status = 409 if name in self.server.repos else 200
        self.server.repos.setdefault(name, {"main": {".gitattributes": b""}})
        hidden = asked.get("visibility") == "private" or bool(asked.get("private"))
        self.server.private.setdefault(name, hidden)
        return self.reply({"url": f"{self.server.url}/datasets/{name}", "id": name}, status)

    def repo(self, parts, data):
        name, call = "/".join(parts[:2]), parts[2] if len(parts) > 2 else ""
        branches = self.server.repos.get(name)
        if branches is None:
            return self.reply({"error": "Repository not found"}, 404)
        if call == "branch":
            branches.setdefault(parts[3], dict(branches["main"]))
            return self.reply({})
        if call == "tree":
            files = branches[parts[3]]
            return self.reply(
                [{"type": "file", "path": p, "size": len(d), "oid": "0" * 40} for p, d in files.items()]
            )
        if call == "preupload":
            return self.preupload(json.loads(data))
        if call == "commit":
            return self.commit(branches[parts[3]], data)
        assert call in ("", "revision")
        return self.reply({"id": name, "private": self.server.private[name], "siblings": [], "tags": []})

    def preupload(self, asked):
        files = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["path"].endswith((".parquet", ".jpg")) else "regular",
                "shouldIgnore": False,
            }
            for file in asked["files"]
        ]
        return self.reply({"files": files})

    def batch(self, asked):
        objects = []
        for one in asked["objects"]:
            action = {"upload": {"href": f"{self.server.url}/store/{one['oid']}"}}
            objects.append({**one, **({} if one["oid"] in self.server.objects else {"actions": action})})
        return self.reply({"transfer": "basic", "objects": objects})

    def store(self, oid, data):
        assert hashlib.sha256(data).hexdigest() == oid
        if self.server.drop_after is not None and len(self.server.objects) >= self.server.drop_after:
            return self.connection.close()
        self.server.objects[oid] = data
        return self.reply({})

    def commit(self, files, data):
        operations = [json.loads(line) for line in data.splitlines()]
        for operation in operations:
            value = operation["value"]
            if operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "lfsFile":
                files[value["path"]] = self.server.objects[value["oid"]]
            elif operation["key"] == "deletedFile":
                del files[value["path"]]
            else:
                self.server.commits.append(value["summary"])
        return self.reply(
            {"commitUrl": f"{self.server.url}/datasets/me/tiny/commit/1", "commitOid": "1" * 40}
        )

    do_GET = do_PUT = do_POST


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Serve an empty Hub, and direct `huggingface_hub` to it, without the Xet protocol."""
    server = Hub()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    disable_progress_bars()
    yield server
    enable_progress_bars()
    server.shutdown()
    server.server_close()


@pytest.fixture
def packed(stored):
    return stored / "hub"


@pytest.fixture
def packed_copy(stored_copy):
    return stored_copy / "hub"


def files_there(hub, name="me/tiny"):
    return {path: data for path, data in hub.repos[name]["main"].items() if path != ".gitattributes"}


def test_a_pack_is_uploaded_byte_for_byte_and_replaced_by_the_next(hub, packed_copy, frames_root, tmp_path):
    whole = contents(packed_copy)
    (packed_copy / "secret.txt").write_text("mine")
    sent = push_hub(packed_copy, "me/tiny")
    assert files_there(hub) == whole
    assert set(sent.files) == whole.keys()
    assert (sent.bytes, sent.url) == (sum(map(len, whole.values())), f"{hub.url}/datasets/me/tiny")
    assert not hub.private["me/tiny"]
    push_hub(pack_hub(frames_root, tmp_path / "free", sets=["free"]), "me/tiny")
    assert files_there(hub) == contents(tmp_path / "free")


def test_revision_message_and_privacy_are_passed_on(hub, packed):
    push_hub(packed, "org/tiny", private=True, revision="v2", message="second")
    assert hub.private["org/tiny"]
    assert files_there(hub, "org/tiny") == {}
    assert "README.md" in hub.repos["org/tiny"]["v2"]
    assert hub.commits == ["second"]


def test_an_interrupted_upload_is_resumed(hub, packed, monkeypatch):
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    hub.drop_after = 1
    with refused(r"upload was interrupted .*; run the same command again"):
        push_hub(packed, "me/tiny")
    assert files_there(hub) == {}
    before, hub.drop_after = set(hub.objects), None
    assert len(before) == 1
    hub.asked.clear()
    push_hub(packed, "me/tiny")
    sent = {path.rpartition("/")[2] for method, path in hub.asked if method == "PUT"}
    assert sent == set(hub.objects) - before
    assert files_there(hub) == contents(packed)


def test_a_damaged_pack_is_not_uploaded(hub, packed_copy, tmp_path):
    path = packed_copy / "free" / "train-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with refused(r"parquet: differs from its line in SHA256SUMS; pack the frames again"):
        push_hub(packed_copy, "me/tiny")
    with refused(r"manifest.json is missing; make the folder with `candlelight pack`"):
        push_hub(tmp_path, "me/tiny")
    assert hub.asked == []


def test_an_edited_card_is_sent_after_its_hash_is_renewed(hub, packed_copy):
    """The command comes from docs/publishing.md."""
    for name in ("README.md", "croissant.json"):
        (packed_copy / name).write_text((packed_copy / name).read_text() + "\n")
    with refused(r"README.md: differs from its line in SHA256SUMS"):
        push_hub(packed_copy, "me/tiny")
    docs = (Path(__file__).parents[3] / "docs" / "publishing.md").read_text()
    (command,) = (line.strip() for line in docs.splitlines() if line.startswith("    cd pack && "))
    subprocess.run(command.removeprefix("cd pack && "), shell=True, cwd=packed_copy, check=True)
    push_hub(packed_copy, "me/tiny")
    assert files_there(hub) == contents(packed_copy)


@pytest.mark.parametrize("name", ["README.md", "manifest.json"])
def test_repositories_with_foreign_files_are_refused(hub, packed, name):
    """A `manifest.json` does not prove that the files are a pack: pushing would remove the Parquet files."""
    files = {name: b"{}", "weights.parquet": b"mine"}
    hub.repos["me/other"], hub.private["me/other"] = {"main": dict(files)}, False
    with refused(r"me/other holds `weights.parquet`, which `candlelight push` did not"):
        push_hub(packed, "me/other")
    with refused(r"me/other exists and is public; make it private"):
        push_hub(packed, "me/other", private=True)
    assert hub.repos["me/other"]["main"] == files


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda hub, patch: setattr(hub, "writable", False), "me/tiny: the token may not write there"),
        (
            lambda _, patch: patch.setenv("HF_TOKEN", "hf_wrong"),
            "^(?!.*hf_wrong).*the Hub does not accept the",
        ),
        (lambda _, patch: patch.delenv("HF_TOKEN"), "the Hub needs a token; get one"),
        (
            lambda _, patch: patch.setattr(constants, "HF_HUB_OFFLINE", True),
            "me/tiny: HF_HUB_OFFLINE is set; unset it to upload",
        ),
        (
            lambda _, patch: patch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9"),
            "the Hub cannot be reached",
        ),
    ],
)
def test_errors_of_the_hub_are_reported_in_one_line(hub, packed, monkeypatch, change, message):
    change(hub, monkeypatch)
    with refused(message):
        push_hub(packed, "me/tiny")


@pytest.mark.parametrize("name", ["tiny", "a/b/c", "../tiny", "me/ti ny", "me/..", "me/a--b", ""])
def test_invalid_repository_names_are_refused(packed, name):
    with refused("repository: expected ORG/NAME, got"):
        push_hub(packed, name)


def test_the_command_line_asks_and_uploads(hub, packed, monkeypatch):
    def run(*options, **more):
        return CliRunner().invoke(main, ["push", str(packed), "me/tiny", *options], **more)

    files = contents(packed)
    size = sum(map(len, files.values())) / 1e6
    assert run("--dry-run").stdout == f"datasets/me/tiny: {len(files)} files, {size:.1f} MB, would be sent\n"
    with monkeypatch.context() as patch:
        patch.setattr("candlelight.loaders.frames.read_dataset_info", lambda folder: Namespace(licence=""))
        asked = run(input="n\n")
        assert "states no licence" in run("--dry-run").stdout
    assert (asked.exit_code, "states no licence" in asked.output, hub.asked) == (1, True, [])
    sent = run("--private")
    assert (sent.exit_code, "are there" in sent.stdout, TOKEN in sent.output) == (0, True, False)
    assert hub.private["me/tiny"]
    hub.writable = False
    hub.repos.clear()
    failed = run()
    assert failed.exit_code == 2
    assert failed.stderr.splitlines()[-1].startswith("Error: me/tiny: the token may not write there")
