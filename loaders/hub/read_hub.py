"""Read image sets from Hugging Face folders that `pack_hub` wrote, with `datasets`."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.loaders.causal_columns import (
    CausalColumns,
    causal_columns_of_metadata,
    dataset_causal_columns,
)
from candlelight.loaders.choices import choose_layers, choose_name, choose_split
from candlelight.loaders.errors import DAMAGED, InputError, blame, require_module
from candlelight.loaders.files.json_records import parse_record
from candlelight.loaders.frames import read_dataset_info
from candlelight.loaders.hub.hub_cache import check_cache
from candlelight.loaders.packed_frames import CHECK, PackedFrames, check_factors, check_indices
from candlelight.loaders.packs.pack_manifest import PACK_MANIFEST, PackManifest, read_pack_manifest
from candlelight.loaders.samples import Frame, row_number
from candlelight.loaders.schema import Metadata
from candlelight.loaders.verification.checksums import file_sha256

if TYPE_CHECKING:
    import pyarrow as pa

# A file that `datasets.load_dataset` prefers to the card.
_SETTINGS = ".huggingface.yaml"
_REMEDY = "check it with `candlelight info --verify`, copy it anew, or pack it again"


@dataclass(frozen=True)
class _Batches:
    """Rows in the cache of `datasets`, mapped into memory, in batches of successive rows."""

    starts: list[int]
    columns: list[dict[str, "pa.Array"]]

    def find(self, row: int) -> tuple[dict[str, "pa.Array"], int]:
        """Return the columns of a row's batch, and the row's position in the batch."""
        batch = bisect_right(self.starts, row) - 1
        return self.columns[batch], row - self.starts[batch]


class HubFrames(PackedFrames):
    """One split of an image set in a folder that `pack_hub` wrote, as `candlelight.loaders.samples.Frames`.

    On first opening, `datasets` copies the set without compression (images stay PNG) into its cache, whose
    folder the environment variable ``HF_DATASETS_CACHE`` sets. Rows are read from the cache, without network.
    The reader works in the worker processes of a `torch.utils.data.DataLoader`, whatever their start method.

    Example:
        >>> HubFrames(Path("nowhere"), "candle")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/manifest.json is missing; make the folder with \
`candlelight pack`
    """

    def __init__(
        self,
        path: Path | str,
        set_name: str | None = None,
        layers: Collection[str] | None = None,
        split: str | None = None,
        *,
        objects: bool = False,
        captions: bool = False,
    ) -> None:
        """Open a split of an image set.

        Args:
            path: folder that `pack_hub` wrote.
            set_name: name of the image set; None for the only one.
            layers: names of the layers to read; None for all. The others are not decoded.
            split: name of the split; None for the only one, or `train` of several.
            objects: whether to read the objects of samples; this reads the metadata of every row.
            captions: whether to read the captions of samples.

        Raises:
            InputError: the folder is missing, damaged or was not written by `pack_hub`, or there is no such
                set, split or layer, or several sets and none is named.
        """
        from candlelight.loaders.hub.arrow_tables import layer_column

        self.path = path = Path(path)
        manifest = read_pack_manifest(path)
        self.info = read_dataset_info(path)
        self.set_name = choose_name(path, "set", list(self.info.sets), set_name)
        self.set_info = self.info.sets[self.set_name]
        if not (splits := manifest.splits_of(self.set_name)):
            raise InputError(f"{path / PACK_MANIFEST} names no file of set `{self.set_name}`; pack it again")
        self.split = choose_split(path, splits, split)
        self.layers = choose_layers(self.set_info.layers, layers)
        self.objects, self.captions = objects, captions
        self._columns = {name: layer_column(name) for name in self.layers}
        self._opened: _Batches | None = None
        _check_files(path, manifest)
        with _reading(self._where):
            self._check_columns(manifest)
            self._table = _load(path, manifest, self.set_name, self.split)
            self.indices = self._column("index")
            check_indices(self.indices)

    def _check_columns(self, manifest: PackManifest) -> None:
        """Refuse files whose columns do not fit the description of the set."""
        from candlelight.loaders.hub.arrow_tables import unfit_columns
        from candlelight.loaders.hub.set_facts import read_footer

        for shard in manifest.of_split(self.set_name, self.split):
            schema = read_footer(self.path / shard.path).schema.to_arrow_schema()
            if unfit := unfit_columns(schema, self.set_info):
                raise InputError(f"columns do not fit dataset.json: {', '.join(unfit)}; pack it again")

    def __getstate__(self) -> dict[str, Any]:
        """Drop the mapped rows: another process maps them into memory again."""
        return self.__dict__ | {"_opened": None}

    def _column(self, name: str) -> ndarray:
        # A copy, because arrays from Arrow are read-only.
        return np.array(self._table[:][name])

    def _batches(self) -> _Batches:
        from candlelight.loaders.hub.arrow_tables import plain_array

        if self._opened is None:
            # Directly from Arrow: `datasets` takes longer to find a row than Arrow takes to read it.
            more = ["id", "metadata", *({"caption"} & {*self._table.column_names})]
            table = self._table.data.table.select([*self._columns.values(), *more])
            batches = table.to_batches()
            starts = list(accumulate((len(batch) for batch in batches[:-1]), initial=0))
            columns = [dict(zip(batch.schema.names, batch.columns, strict=True)) for batch in batches]
            self._opened = _Batches(
                starts, [{name: plain_array(column) for name, column in one.items()} for one in columns]
            )
        return self._opened

    def metadata(self, row: SupportsIndex) -> Metadata:
        """Read the metadata of one row."""
        return self._metadata(row_number(row, len(self)))

    def _metadata(self, number: int) -> Metadata:
        columns, place = self._batches().find(number)
        text = columns["metadata"][place].as_py()
        return parse_record(Metadata, text, self._where(number), CHECK)

    def _where(self, row: int | None = None) -> str:
        split = "" if self.split == "train" else f", split `{self.split}`"
        return f"{self.path}, set `{self.set_name}`{split}" + ("" if row is None else f", row {row}")

    def _views(self, numbers: Sequence[int]) -> list[dict[str, ndarray]]:
        from candlelight.loaders.hub.arrow_tables import decode_layer

        views = list[dict[str, ndarray]]()
        with _reading(lambda: self._where(numbers[len(views)])):
            for number in numbers:
                columns, place = self._batches().find(number)
                views.append(
                    {
                        name: decode_layer(name, columns[key], place, self.set_info)
                        for name, key in self._columns.items()
                    }
                )
        return views

    def frame(self, row: SupportsIndex) -> Frame:
        """Read one row as numpy arrays."""
        number = row_number(row, len(self))
        # A copy, because arrays from Arrow are read-only.
        arrays = {name: np.array(array, order="C") for name, array in self._views([number])[0].items()}
        return Frame(self._metadata(number), arrays)

    def _id(self, number: int) -> str:
        columns, place = self._batches().find(number)
        if (found := columns["id"][place].as_py()) is None:
            raise InputError(f"{self._where(number)}: column `id`: expected a name, got null; {CHECK}")
        return str(found)

    def _stored_caption(self, number: int) -> str | None:
        columns, place = self._batches().find(number)
        if "caption" not in columns:
            return None
        if (found := columns["caption"][place].as_py()) is None:
            raise InputError(f"{self._where(number)}: column `caption`: expected text, got null; {CHECK}")
        return str(found)

    @cached_property
    def factor_table(self) -> Float64[ndarray, "n k"]:
        """Factors of every row."""
        from candlelight.loaders.hub.arrow_tables import factor_columns

        names = factor_columns(self.set_info).values()
        table = np.empty((len(self), len(names)))
        for place, name in enumerate(names):
            table[:, place] = self._column(name)
        with _reading(self._where):
            check_factors(table, self.set_info)
        return table

    @property
    def propensities(self) -> dict[str, Float64[ndarray, " n"]]:
        """Probability (or density) of every row's value given its parents, by factor and variable.

        It is empty for packs of earlier versions, whose metadata alone hold it.
        """
        return {name: self._column(f"propensity.{name}") for name in self.set_info.propensity_names}

    @property
    def causal_columns(self) -> CausalColumns:
        """Units, steps, counterfactuals and interventions of every row; read anew at each use."""
        if "unit" not in self._table.column_names:  # a pack of an earlier version
            return causal_columns_of_metadata(self)
        return dataset_causal_columns(self._table, [factor.name for factor in self.set_info.factors])


def _check_files(path: Path, manifest: PackManifest) -> None:
    """Refuse missing or truncated files, also of other sets, because `datasets` lists all files."""
    # `datasets` would treat a path with these signs as a pattern of folders, or search inside an archive.
    if any(sign in str(path.resolve()) for sign in ("*", "?", "[", "::")):
        raise InputError(
            f"{path}: `datasets` reads `*`, `?`, `[` and `::` in a path as a pattern; rename the folder"
        )
    if (path / _SETTINGS).exists():
        raise InputError(f"{path / _SETTINGS} makes `datasets` read files of no pack; delete it")
    for shard in manifest.files:
        file = path / shard.path
        if not file.is_file():
            raise InputError(f"{file} is missing; copy it anew or pack it again")
        if (size := file.stat().st_size) != shard.bytes:
            raise InputError(
                f"{file}: expected {shard.bytes} bytes, got {size}; copy it anew or pack it again"
            )


def _load(path: Path, manifest: PackManifest, set_name: str, split: str) -> Any:
    """Load an image set with rows as Arrow tables, which keep every bit and decode nothing."""
    require_module("datasets")
    import datasets
    from datasets.packaged_modules.parquet.parquet import Parquet

    check_cache(datasets.config.HF_DATASETS_CACHE)
    folder = path.resolve()
    splits = {name: manifest.of_split(set_name, name) for name in manifest.splits_of(set_name)}
    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        # Read only the files of the manifest, whatever the card says. The key of the cache contains paths and
        # a hash of the content, so two packs never share an entry.
        builder = Parquet(
            dataset_name="candlelight",
            config_name=set_name,
            hash=manifest.content_sha256(set_name),
            data_files={
                name: [str(folder / shard.path) for shard in shards] for name, shards in splits.items()
            },
        )
        if not Path(builder.cache_dir).exists():
            _check_hashes(path, manifest, set_name)  # otherwise damaged data would stay in the cache
        builder.download_and_prepare()
        loaded = builder.as_dataset(split=split)
    finally:
        if shown:
            datasets.enable_progress_bars()
    if len(loaded) != (rows := sum(shard.rows for shard in splits[split])):
        raise InputError(f"expected {rows} rows, as manifest.json says, got {len(loaded)}; {_REMEDY}")
    return loaded.with_format("arrow")


def _check_hashes(path: Path, manifest: PackManifest, set_name: str) -> None:
    for shard in manifest.of_set(set_name):
        if file_sha256(path / shard.path) != shard.sha256:
            raise InputError(f"{shard.path} differs from its hash in manifest.json; {_REMEDY}")


@contextmanager
def _reading(where: Callable[[], str]) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(f"{where()}: {error}") from None
    except Exception as error:
        from datasets.exceptions import DatasetsError

        cause: BaseException = error
        while cause.__cause__:
            cause = cause.__cause__
        # `datasets` wraps the errors of Arrow, also the error for lack of memory.
        if not isinstance(cause, (*DAMAGED, DatasetsError)):
            raise cause from None
        raise blame(f"{where()} cannot be read", cause, _REMEDY) from None
