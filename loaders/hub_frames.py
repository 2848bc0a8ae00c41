"""An image set in a Hugging Face folder, read through `datasets`."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from loaders.codecs import decode_png_bytes
from loaders.errors import InputError
from loaders.frames import choose_layers, read_dataset_info
from loaders.manifest import Manifest, read_manifest
from loaders.plain_yaml import parse_yaml
from loaders.records import parse_record
from loaders.samples import Frame, Sample, to_sample
from loaders.schema import Metadata, SetInfo, layer

if TYPE_CHECKING:
    import pyarrow as pa

_REMEDY = "check it with `sha256sum -c SHA256SUMS`, copy it anew, or pack it again"


class HubFrames:
    """One image set in a folder that `pack_hub` wrote, as `loaders.samples.Frames`.

    On first opening, `datasets` copies the set without compression (images stay PNG) into its cache, which
    the environment variable ``HF_DATASETS_CACHE`` moves; afterwards rows are read from there. Nothing is
    asked of the network. The reader works in the worker processes of a `torch.utils.data.DataLoader`
    however they are started.

    Example:
        >>> HubFrames(Path("nowhere"), "candle")
        Traceback (most recent call last):
        loaders.errors.InputError: nowhere/manifest.json is missing; make the folder with `candlelight pack`
    """

    def __init__(self, path: Path, set_name: str, layers: Collection[str] | None = None) -> None:
        """Open an image set.

        Args:
            path: folder that `pack_hub` wrote.
            set_name: name of the image set.
            layers: names of the layers to read; None for all. The others are not decoded.

        Raises:
            InputError: the folder is missing, damaged or no such folder, or there is no such set or layer.
        """
        from loaders.hub_table import layer_column

        manifest = read_manifest(path)
        self.path = path
        self.info = read_dataset_info(path)
        self.set_info = self.info.set(set_name)
        self.set_name = set_name
        self.layers = choose_layers(self.set_info.layers, layers)
        _check_files(path, manifest)
        _check_card(path)
        with _reading(f"{path}, set `{set_name}`"):
            self._table = _load(path, set_name)
            _check_table(self._table, self.set_info, manifest.content_sha256(set_name))
        self._columns = {name: layer_column(name) for name in self.layers}
        self.indices = self._column("index")

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.indices)

    def _column(self, name: str) -> ndarray:
        # A copy, because what Arrow gives is read-only.
        return np.array(self._table[:][name])

    def metadata(self, row: SupportsIndex) -> Metadata:
        """Read what is known of one row."""
        number = range(len(self))[row]
        return self._metadata(self._table[[number]], 0, number)

    def _metadata(self, rows: "pa.Table", place: int, number: int) -> Metadata:
        return parse_record(Metadata, rows["metadata"][place].as_py(), self._where(number), "pack it again")

    def _where(self, number: int) -> str:
        return f"{self.path}, set `{self.set_name}`, row {number}"

    def _frames(self, rows: Sequence[SupportsIndex]) -> Iterator[Frame]:
        numbers = [range(len(self))[row] for row in rows]
        table = self._table[numbers]
        size = self.set_info.height, self.set_info.width
        for place, number in enumerate(numbers):
            with _reading(self._where(number)):
                arrays = {name: _array(name, table[key][place], *size) for name, key in self._columns.items()}
            yield Frame(self._metadata(table, place, number), arrays)

    def frame(self, row: SupportsIndex) -> Frame:
        """Read one row as numpy arrays."""
        return next(self._frames([row]))

    def __getitem__(self, row: SupportsIndex) -> Sample:
        """Read one row as tensors."""
        return to_sample(self.frame(row), self.set_info)

    def __getitems__(self, rows: Sequence[SupportsIndex]) -> list[Sample]:
        """Read several rows as tensors, in the order asked for."""
        return [to_sample(frame, self.set_info) for frame in self._frames(rows)]

    @cached_property
    def factor_table(self) -> Float64[ndarray, "n k"]:
        """Factors of every row."""
        from loaders.hub_table import factor_columns

        names = factor_columns(self.set_info).values()
        table = np.empty((len(self), len(names)))
        for place, name in enumerate(names):
            table[:, place] = self._column(name)
        return table


def _check_files(path: Path, manifest: Manifest) -> None:
    """Refuse files that are missing or cut short; those of other sets too, as `datasets` looks for them."""
    # With these, `datasets` would look in every folder that the pattern fits, or inside an archive.
    if any(sign in str(path.resolve()) for sign in ("*", "?", "[", "::")):
        raise InputError(
            f"{path}: `datasets` takes `*`, `?`, `[` and `::` in a path for a pattern; rename the folder"
        )
    for shard in manifest.files:
        file = path / shard.path
        if not file.is_file():
            raise InputError(f"{file} is missing; copy it anew or pack it again")
        if (size := file.stat().st_size) != shard.bytes:
            raise InputError(
                f"{file}: expected {shard.bytes} bytes, got {size}; copy it anew or pack it again"
            )


def _check_card(path: Path) -> None:
    """Refuse a card that has `datasets` read anything but the folder's own files."""
    from loaders.hub_card import own_files

    file = path / "README.md"
    head = file.read_text(encoding="utf-8", errors="replace").split("---\n", 2) if file.is_file() else []
    try:
        configs = parse_yaml(head[1])["configs"] if len(head) == 3 else []
        wrong = [config for config in configs if config != own_files(config["config_name"])]
    except (InputError, KeyError, TypeError):
        wrong = [{}]
    if wrong:
        raise InputError(f"{file}: expected `configs` as `candlelight pack` writes them; {_REMEDY}")


def _load(path: Path, set_name: str) -> Any:
    """Load an image set; its rows come as Arrow tables, which keep every bit and decode nothing."""
    import datasets

    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        # The whole path, because a bare name like `parquet` is a builder of `datasets`.
        loaded = datasets.load_dataset(str(path.resolve()), set_name, split="train")
    finally:
        if shown:
            datasets.enable_progress_bars()
    return loaded.with_format("arrow")


def _check_table(table: Any, set_info: SetInfo, content_sha256: str) -> None:
    """Refuse rows that are not what the manifest and ``dataset.json`` promise."""
    import datasets

    from loaders.hub_table import columns

    # `datasets` finds what it has cached by the card: with the card of another pack come another's rows.
    if table.info.description != f"content-sha256:{content_sha256}":
        raise InputError(f"README.md is not the one that belongs to manifest.json; {_REMEDY}")
    expected = datasets.Features.from_dict({column.name: column.feature for column in columns(set_info)})
    names = {*expected, *table.features}
    if odd := sorted(name for name in names if expected.get(name) != table.features.get(name)):
        raise InputError(f"columns are not as dataset.json says: {', '.join(odd)}; pack it again")


def _array(name: str, value: Any, height: int, width: int) -> ndarray:
    """Decode one layer of one row from its Arrow scalar."""
    spec = layer(name)
    shape = spec.shape(height, width)
    if spec.dtype == "uint8":
        return decode_png_bytes(value["bytes"].as_py(), shape)
    numbers = value.value.values  # an extension type's storage: a list of lists
    for _ in shape[1:]:
        numbers = numbers.flatten()
    stored = numbers.to_numpy().reshape((spec.channels, height, width) if spec.channels else shape)
    # A copy, because what Arrow gives is read-only.
    return np.array(np.moveaxis(stored, 0, 2) if spec.channels else stored, order="C")


@contextmanager
def _reading(where: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except Exception as error:  # whatever `datasets`, Arrow and Pillow raise on damaged files
        cause: BaseException = error
        while cause.__cause__:
            cause = cause.__cause__
        reason = " ".join(str(cause).split()) or type(cause).__name__
        raise InputError(f"{where} cannot be read: {reason}; {_REMEDY}") from None
