"""Store what a command printed and wrote so that two recordings can be compared.

Texts lose the paths of this machine, the version of the code, times and progress. Pages are stored as their
text, with a hash in the place of each picture; tensors as hashes beside their values.
"""

import html
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

PRINTED, LISTED, PICTURES = "printed.txt", "files.txt", "pictures"
_REPLACED = (
    (re.compile(r"\d+\.\d+\.\d+\.dev\d+\+g[0-9a-f]{7,}(\.dirty)?"), "VERSION"),
    (re.compile(r"^.*: \d+(/\d+)? \w+s, +\S+/s.*\n", re.MULTILINE), ""),  # progress of more than a minute
    (re.compile(r"^.*\d(it/s|s/it)\]?.*\n", re.MULTILINE), ""),
    (re.compile(r"^ *\d+ s  ", re.MULTILINE), "SECONDS  "),  # of the demo
    (re.compile(r"\b\d+ CPU s\b"), "CPU SECONDS"),
    (re.compile(r"(frames, )\d+( s, last loss)"), r"\1SECONDS\2"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"http://127\.0\.0\.1:\d+/[\w-]+/"), "http://PAGE/"),
    (re.compile(r'("session":") *[\w-]+'), r"\1SESSION"),
    (re.compile(r"(?<=\.py):\d+: "), ": "),  # line of a warning
)
_TEXTS = (".json", ".jsonl", ".csv", ".txt", ".py", ".yaml")


class Recorder:
    """Store outputs of one command in a folder.

    Args:
        target: the folder.
        paths: folders whose path is replaced by a name.
    """

    def __init__(self, target: Path, paths: dict[str, Path]) -> None:
        self.target = target
        (target / PICTURES).mkdir(parents=True)
        # The longest first, because one may lie in another.
        pairs = [(str(path), name) for name, path in paths.items()]
        self._paths = sorted(pairs, key=lambda pair: -len(pair[0]))

    def store_text(self, name: str, text: str) -> None:
        """Store a text without what differs from run to run."""
        for place, short in self._paths:
            text = text.replace(place, short)
        for pattern, replacement in _REPLACED:
            text = pattern.sub(replacement, text)
        path = self.target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def store_files(self, root: Path) -> None:
        """Store all files below a folder but links, and a list of their names."""
        files = sorted(_files(root))
        names = [path.relative_to(root) for path in files]
        # What is kept of a run that has failed, and the hashes of files that the demo has read and written,
        # depend on the version of the code.
        listed = {one for name in names for one in (name, *name.parents) if _is_bookkeeping(one)}
        whole = [name for name in names if not listed.intersection((name, *name.parents))]
        self.store_text(LISTED, "".join(f"{name}\n" for name in sorted({*whole, *listed})))
        for name in whole:
            self._store_file(str(name), root / name)

    def _store_file(self, name: str, path: Path) -> None:
        kind = path.suffix
        if kind in _TEXTS:
            self.store_text(name, path.read_text(encoding="utf-8"))
        elif kind == ".html":
            self.store_text(f"{name}.txt", self._page(path.read_text(encoding="utf-8")))
        elif kind == ".svg":
            self.store_text(f"{name}.txt", self._picture(path.read_bytes(), "svg"))
        elif kind == ".png":
            self.store_text(f"{name}.txt", self._picture(path.read_bytes(), "png"))
        elif kind == ".pt":
            self._store_weights(name, path)
        elif kind in (".npz", ".npy"):
            found = np.load(path)
            self._store_arrays(name, dict(found) if kind == ".npz" else {"values": found}, {})
        else:
            self.store_text(f"{name}.txt", f"sha256 {sha256(path.read_bytes()).hexdigest()}\n")

    def _store_weights(self, name: str, path: Path) -> None:
        import torch

        arrays: dict[str, np.ndarray] = {}

        def plain(value: Any, place: str) -> Any:
            if isinstance(value, torch.Tensor):
                arrays[place] = value.numpy()
                return f"tensor {place}"
            if isinstance(value, dict):
                return {str(key): plain(one, f"{place}/{key}") for key, one in value.items()}
            if isinstance(value, list | tuple):
                return [plain(one, f"{place}/{number}") for number, one in enumerate(value)]
            return value

        content = plain(torch.load(path, map_location="cpu", weights_only=True), "")
        self._store_arrays(name, arrays, content)

    def _store_arrays(self, name: str, arrays: dict[str, np.ndarray], content: Any) -> None:
        kinds = {key: f"{values.dtype} {list(values.shape)}" for key, values in arrays.items()}
        hashes = {key: sha256(values.tobytes()).hexdigest() for key, values in arrays.items()}
        text = json.dumps({"content": content, "arrays": kinds, "hashes": hashes}, indent=1)
        self.store_text(f"{name}.json", f"{text}\n")
        with (self.target / f"{name}.arrays.npz").open("wb") as file:
            np.savez(file, **{key.replace("/", " "): values for key, values in arrays.items()})

    def _picture(self, data: bytes, kind: str) -> str:
        """Store a picture under its hash; return a text that names it."""
        if kind == "svg":  # ids are checksums, of the picture or at random
            text = data.decode()
            data = re.sub(r'( id="|="#|url\(#)[^")]*', r"\1", text).encode()
        digest = sha256(data).hexdigest()[:16]
        (self.target / PICTURES / f"{digest}.{kind}").write_bytes(data)
        return f"[{kind} {digest}]"

    def _page(self, text: str) -> str:
        """Return the text of a page, a line for each block or row of a table."""

        def inline(tag: re.Match[str]) -> str:
            [(kind, data)] = re.findall(r'src="data:image/([a-z]+);base64,([^"]*)"', tag[0])
            alt = " ".join(re.findall(r' alt="([^"]*)"', tag[0]))
            return f"\n{self._picture(b64decode(data), kind)} {alt}\n"

        text = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
        text = re.sub(
            r"<svg.*?</svg>",
            lambda tag: f"\n{self._picture(tag[0].encode(), 'svg')}\n",
            text,
            flags=re.DOTALL,
        )
        text = re.sub(r"<img [^>]*>", inline, text)
        text = re.sub(r'<[^>]* aria-label="([^"]*)"[^>]*>', r"\n\1\n", text)
        text = re.sub(r"</t[dh]>", " | ", text)
        text = re.sub(r"<wbr>|</?(?:strong|em|code|a|span|td|th)\b[^>]*>", "", text)
        text = html.unescape(re.sub(r"<[^>]*>", "\n", text))
        lines = (" ".join(line.split()) for line in text.splitlines())
        return "".join(f"{line}\n" for line in lines if line)


def _files(folder: Path) -> Iterator[Path]:
    """List the files below a folder, without links and without files that have a second name elsewhere."""
    for path in folder.iterdir():
        if path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.stat().st_nlink == 1:
            yield path


def _is_bookkeeping(path: Path) -> bool:
    """Tell whether a file or folder keeps what a later run may reuse."""
    return path.suffix == ".partial" or path.name == "records"
