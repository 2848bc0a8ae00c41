"""Evaluate models on data by the record of an evaluation: the one loop that every score runs in."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from importlib import import_module
from inspect import unwrap
from itertools import permutations
from pathlib import Path
from traceback import extract_tb
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from candlelight.evaluation.catalogue import RECORDS
from candlelight.evaluation.catalogue.record import Evaluation, O, direction, make_options, whole_column
from candlelight.evaluation.models.model_spec import (
    NamedModel,
    open_models,
    user_module,
)
from candlelight.evaluation.run.batches import Batch, repeatable
from candlelight.evaluation.run.fingerprints import Fingerprint, make_provenance
from candlelight.evaluation.run.model_outputs import MissingLayer, describe_output
from candlelight.evaluation.run.named_models import identify_models
from candlelight.evaluation.run.predictions import MissingResults
from candlelight.evaluation.run.result import MeanResult, Provenance, Result, fill_failures
from candlelight.evaluation.run.steps import FinishedSteps, Step, run_batches
from candlelight.loaders.errors import InputError, did_you_mean, nearest_file
from candlelight.loaders.files.python_files import exception_reason, user_file
from candlelight.loaders.verification.checksums import file_sha256

_Tensors = TypeVar("_Tensors")
Measured = Iterator[tuple[Any, dict[str, Step]]]


@dataclass(frozen=True, eq=False)
class Run(Generic[O]):
    """One call of an evaluation: its record, options, data and models.

    Attributes:
        evaluation: the record.
        options: its options.
        data: the rows, as `Reading.open` opened them.
        models: the user's models, and result files in place of models, by name.
        device: torch device of the models.
        batch_size: images per call of a model.
        missing: see `evaluate`.
        steps: keeps finished steps.
        fingerprint: hash of the rows that were read.
        kept: objects that a study keeps for its pictures.
        shown: rows that the page shows: "worst", "median", "best" or ids; the evaluation's choice if none.
    """

    evaluation: Evaluation[O]
    options: O
    data: Any
    models: dict[str, NamedModel]
    device: str
    batch_size: int
    missing: MissingResults
    steps: FinishedSteps
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    kept: dict[str, Any] = field(default_factory=dict)
    shown: tuple[str, ...] = ()

    @property
    def scored(self) -> dict[str, NamedModel]:
        """The user's models and the controls, by name."""
        controls = self.evaluation.controls
        if not controls:
            return self.models
        named = identify_models(controls, [], self.evaluation.reads.space, None)
        # Their code is hashed with all imported files, so their steps are kept as those of shipped models.
        return self.models | {
            name: replace(one, identity=replace(one.identity, source="shipped"))
            for name, one in named.items()
        }

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments that change the numbers: options, facts about the data, the file of one's own record."""
        facts, own = self.evaluation.facts, _own_file(self.evaluation)
        settings = asdict(self.options) | {"missing": self.missing}  # type: ignore[call-overload]
        settings |= {} if own is None else {"evaluation_sha256": file_sha256(own)}
        return settings | ({} if facts is None else dict(facts(self.data)))

    def provenance(self, name: str, **settings: object) -> Provenance:
        """Describe the origin of the result of one model, once all rows were read.

        Args:
            name: the model.
            settings: further settings.
        """
        record, named = self.evaluation, self.scored[name]
        if name in record.controls:
            named = replace(named, identity=replace(named.identity, source="control"))
        about = record.name, record.version, record.better, named
        return make_provenance(*about, self.fingerprint.describe(self.data), self.settings | settings)

    def measured(self) -> Measured:
        """Measure all rows of all models: yields the prepared rows and each model's tensors, batch by batch.

        A step holds the tensors that `Evaluation.measure` makes, on the CPU, and the flags ``failed``; of
        result files also ``resized``.
        """
        record, reads = self.evaluation, self.evaluation.reads

        def prepare(batch: Batch[Any]) -> Any:
            return on_device(reads.prepare(batch.items), self.device)  # type: ignore[misc]

        def compute(named: NamedModel, ids: Sequence[str], prepared: Any, device: str) -> Step:
            predicted = reads.predict(named, ids, prepared, device)  # type: ignore[misc]
            made = _measure(self, predicted, prepared, len(ids))
            if getattr(predicted, "resized", None) is not None:
                made["resized"] = predicted.resized
            return {**made, "failed": predicted.failed}

        options: Any = self.options
        batches = run_batches(
            self.scored,
            self.data,
            prepare,
            compute,
            fingerprint=self.fingerprint,
            settings={"metric": record.name, "version": record.version, "options": asdict(options)},
            device=self.device,
            batch_size=self.batch_size,
            steps=self.steps,
            lacking=self._leave_out,
        )
        for prepared, made in batches:
            for name, step in made.items():
                if "resized" in step:
                    before = self.kept.get(f"resized {name}", 0)
                    self.kept[f"resized {name}"] = before + int(step["resized"].sum())
            yield prepared, made

    def _leave_out(self, name: str, error: MissingLayer) -> None:
        """Leave out a model without the layer that is scored, as long as there is another one."""
        if name not in self.models or len(self.models) == 1:
            raise error
        del self.models[name]
        self.kept.setdefault("left out", []).append(f"left out: {name}: {str(error).partition(': ')[2]}")

    def notes(self, name: str) -> dict[str, list[str]]:
        """Note for the details of a result which models were left out, and how many predictions resized."""
        notes, count = list(self.kept.get("left out", ())), self.kept.get(f"resized {name}", 0)
        if count:
            share = f"{count} of {len(self.data)} predictions"
            notes.append(f"{name}: {share} had another size than their image and were resized")
        return {"notes": notes} if notes else {}


def evaluate(
    evaluation: Evaluation[Any] | str,
    data: Any,
    models: Mapping[str, Any] | Sequence[str] | str = (),
    *,
    device: str = "auto",
    set_name: str | None = None,
    split: str | None = None,
    rows: Any = None,
    limit: int | None = None,
    batch_size: int = 16,
    missing: MissingResults = "error",
    steps: FinishedSteps | None = None,
    **options: Any,
) -> dict[str, Result]:
    """Score models by an evaluation, as ``candlelight evaluate NAME`` does.

    Args:
        evaluation: a record, the name of a shipped one, or ``file.py:name`` of one's own.
        data: PATH, LAYOUT:PATH, hf:NAME, a reader, or an opened view.
        models: by name: a callable, a `NamedModel`, or result files such as `Predictions`; or texts, as of
            the option ``--model`` of the command.
        device: torch device; "auto" is that of the first network in ``models``, else CUDA where there is one.
        set_name: image set of the data; may be left out where there is only one.
        split: split of the data; may be left out where there is only one.
        rows: row numbers, or text such as "0:100".
        limit: largest number of rows.
        batch_size: images per call of a model; images of several sizes are never in one call.
        missing: "error" refuses result files without a file for an id; "fail" counts the id as failed.
        steps: keeps finished steps, so that an interrupted run resumes.
        options: options of the evaluation, see its dataclass: ``help(evaluation.options)``.

    Returns:
        A result for each model and control, by name.

    Raises:
        InputError: the data, a model or an option cannot be used.

    Example:
        >>> import torch
        >>> from candlelight.evaluation.views import DataIdentity, DecomposedImage
        >>> class Flat:
        ...     identity, explains = DataIdentity("flat", "memory"), "image"
        ...     ids, groups, known_ids = ("a",), ("a",), frozenset("a")
        ...     def __len__(self): return 1
        ...     def __getitem__(self, row):
        ...         image = torch.rand(3, 20, 20)
        ...         return DecomposedImage(image, image, torch.ones_like(image), torch.ones(20, 20).bool())
        >>> evaluate("lmse", Flat(), ["constant-shading"], device="cpu")["constant-shading"].score < 1e-9
        True
    """
    record = find_evaluation(evaluation) if isinstance(evaluation, str) else evaluation
    choice = {"data": data, "set_name": set_name, "split": split, "rows": rows, "limit": limit}
    made = make_options(record.options, options)
    run = start(record, made, choice, models, device, batch_size, missing, steps or FinishedSteps())
    return score(run)


def start(
    record: Evaluation[O],
    options: O,
    choice: Mapping[str, Any],
    models: Mapping[str, Any] | Sequence[str] | str,
    device: str = "auto",
    batch_size: int = 16,
    missing: MissingResults = "error",
    steps: FinishedSteps | None = None,
) -> Run[O]:
    """Open models and data of one call; see `evaluate`.

    Raises:
        InputError: a model or the data cannot be used, or a model has the name of a control.
    """
    if isinstance(models, str):
        models = [models]
    if not isinstance(models, Mapping | Sequence) or not all(isinstance(one, str) for one in models):
        raise InputError('`models`: expected models by name, such as {"mine": model}, or a list of texts')
    device = pick_device(device, models)
    if not isinstance(models, Mapping):
        models = open_named_models(record, models, device)
    if taken := sorted(record.controls.keys() & models.keys()):
        raise InputError(f"model `{taken[0]}`: the name is that of a control; give another name")
    view = record.reads.open(choice, options, models)
    views = getattr(view, "views", [view] if hasattr(view, "known_ids") else [])
    if record.needs_models or models:
        models = identify_models(models, views, record.reads.space, missing)
    return Run(record, options, view, dict(models), device, batch_size, missing, steps or FinishedSteps())


def open_named_models(record: Evaluation[Any], specs: Sequence[str], device: str) -> dict[str, NamedModel]:
    """Open the models that texts name, of the kind that an evaluation scores.

    Raises:
        InputError: a model cannot be opened, or two have one name.
    """
    place, _, name = record.models.opens.partition(":")
    return open_models(specs, device, record.reads.space, getattr(import_module(place), name))


def score(run: Run[Any]) -> dict[str, Result]:
    """Score the models of a run: by its study, by its summary of all rows, or as means over rows."""
    record = run.evaluation
    with repeatable(run.device):
        if record.study is not None:
            return dict(record.study(run))
        if record.summarise is not None:
            return dict(record.summarise(run, run.measured()))
        return mean_results(run, run.measured())


class Errors(NamedTuple):
    """Errors of all rows, lower is better: arrays [rows, columns].

    Attributes:
        columns: names of the columns.
        errors: errors of each model.
        failed: failed rows of each model.
        worst: errors that a failed prediction has at least; nan where the truth leaves a column undefined.
    """

    columns: tuple[str, ...]
    errors: dict[str, Any]
    failed: dict[str, Any]
    worst: Any


def collect_errors(run: Run[Any], measured: Measured) -> Errors:
    """Join the columns of all rows; they are negated where higher values are better.

    A prediction that is finite but has an infinite error has failed too.
    """
    worst: list[Mapping[str, Tensor]] = []
    steps: dict[str, list[Step]] = {}
    for prepared, made in measured:
        worst.append(_worst(run, prepared))
        for name, step in made.items():
            steps.setdefault(name, []).append(step)
    columns = tuple(worst[0])
    sign = _signs(run.evaluation, columns)
    errors = {name: sign * _table(some, columns) for name, some in steps.items()}
    failed = {
        name: np.concatenate([step["failed"].numpy() for step in some]) | np.isposinf(errors[name]).any(1)
        for name, some in steps.items()
    }
    found = Errors(columns, errors, failed, sign * _table(worst, columns))
    _check_undefined(run, found)
    return found


def mean_results(run: Run[Any], measured: Measured) -> dict[str, Result]:
    """Make the means over rows."""
    return filled_results(run, collect_errors(run, measured), run.data.ids, run.data.groups)


def filled_results(
    run: Run[Any], found: Errors, ids: Sequence[str], groups: Sequence[str], **settings: Any
) -> dict[str, Result]:
    """Make results of errors by row, where failed predictions count as `fill_failures` says.

    Args:
        run: the run, whose rows were all read.
        found: the errors.
        ids: id of each row.
        groups: group of each row.
        settings: further settings of the results.
    """
    record = run.evaluation
    stated = () if isinstance(record.better, str) else record.better  # may have columns by its options
    known = {*map(whole_column, found.columns), *found.columns, *stated}
    if unknown := sorted((record.worst.keys() | record.ranges.keys()) - known):
        names = ", ".join(found.columns)
        raise InputError(
            f"evaluation `{record.name}`: no column `{unknown[0]}` for worst or ranges; it has {names}"
        )
    filled = fill_failures(found.errors, found.failed, found.worst)
    lost = any(flags.any() for flags in found.failed.values())
    if lost and set(found.columns) - record.worst.keys():
        settings["filled_among"] = sorted(filled)
    sign = _signs(record, found.columns)
    wholes = {column: whole_column(column) for column in found.columns}
    ranges = {column: record.ranges[one] for column, one in wholes.items() if one in record.ranges}
    results: dict[str, Result] = {}
    for name, table in filled.items():
        columns = zip(found.columns, (sign * table).T, strict=True)
        values = {column: tuple(part.tolist()) for column, part in columns}
        failed = tuple(ids[row] for row in np.flatnonzero(found.failed[name]).tolist())
        about, notes = run.provenance(name, **settings), run.notes(name)
        results[name] = MeanResult(about, tuple(ids), tuple(groups), values, failed, notes, ranges)
    return results


def _signs(record: Evaluation[Any], columns: Sequence[str]) -> Any:
    """Return for each column the factor that makes lower values better."""
    return np.array([-1.0 if direction(record.better, column) == "higher" else 1.0 for column in columns])


def _worst(run: Run[Any], prepared: Any) -> dict[str, Tensor]:
    """Measure the worst output on prepared rows; nan where the truth leaves a column undefined."""
    record = run.evaluation
    predicted = record.reads.worst(prepared)  # type: ignore[misc]
    found = _measure(run, predicted, prepared, len(predicted.failed))
    fixed = record.worst
    return {
        name: (values if name not in fixed else values.masked_fill(~values.isnan(), fixed[name])).cpu()
        for name, values in found.items()
    }


def _is_own(record: Evaluation[Any]) -> bool:
    """Tell whether a record is a user's own, and not shipped."""
    return not str(getattr(record.measure or record.study, "__module__", "")).startswith("candlelight.")


def _own_file(record: Evaluation[Any]) -> Path | None:
    """Return the file of a user's own record; None for a shipped one, and for code that is in no file."""
    code = getattr(unwrap(record.measure or record.study), "__code__", None)  # type: ignore[arg-type]
    path = Path(code.co_filename) if code is not None and _is_own(record) else None
    return path if path is not None and path.is_file() else None


def _measure(run: Run[Any], predicted: Any, prepared: Any, count: int) -> dict[str, Tensor]:
    """Measure prepared rows; errors of a user's own function are one line."""
    record = run.evaluation
    name = f"`measure` of `{record.name}`"
    try:
        with torch.no_grad():
            made: Any = record.measure(predicted, prepared, run.options)  # type: ignore[misc]
    except InputError:
        raise
    except Exception as error:
        if not _is_own(record):
            raise
        place = extract_tb(error.__traceback__)[-1]
        where = f"({Path(place.filename).name}, line {place.lineno})"
        raise InputError(f"{name} raised {exception_reason(error)} {where}") from error
    fits = isinstance(made, Mapping) and made and all(isinstance(one, Tensor) for one in made.values())
    if not fits or any(one.ndim == 0 or len(one) != count for one in made.values()):
        expected = f"tensors by name with one entry for each of {count} rows"
        raise InputError(f"{name}: expected {expected}, got {describe_output(made)}")
    return dict(made)


def _check_undefined(run: Run[Any], found: Errors) -> None:
    """Refuse columns that are undefined for one model alone: nan may depend on nothing but the truth."""
    lost = {name: flags[:, None] for name, flags in found.failed.items()}
    known = {name: ~np.isnan(table) for name, table in found.errors.items()}
    for (one, some), (other, rest) in permutations(known.items(), 2):
        for row, column in np.argwhere(rest & ~some & ~lost[one] & ~lost[other])[:1]:
            place = f"`{found.columns[column]}` of `{run.data.ids[row]}`"
            raise InputError(
                f"{place} is nan for `{one}` and not for `{other}`: nan "
                "marks a truth that leaves it undefined; return a worst value, or infinity for a failure"
            )


def _table(parts: Sequence[Mapping[str, Tensor]], columns: Sequence[str]) -> Any:
    stacks = [torch.stack([part[column].double() for column in columns], 1) for part in parts]
    return torch.cat(stacks).numpy()


def on_device(value: _Tensors, device: str) -> _Tensors:
    """Copy all tensors of a value to a device: of data classes, tuples, lists and dictionaries.

    Example:
        >>> on_device({"image": torch.ones(1), "count": 3}, "cpu")
        {'image': tensor([1.]), 'count': 3}
    """
    moved: Any = value
    if isinstance(value, Tensor):
        moved = value.to(device)
    elif is_dataclass(value) and not isinstance(value, type):
        parts = {one.name: on_device(getattr(value, one.name), device) for one in fields(value)}
        moved = replace(value, **parts)
    elif isinstance(value, Mapping):
        moved = {name: on_device(part, device) for name, part in value.items()}
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        moved = type(value)(*(on_device(part, device) for part in value))
    elif isinstance(value, list | tuple):
        moved = type(value)(on_device(part, device) for part in value)
    return moved


def pick_device(name: str, models: Any = ()) -> str:
    """Resolve ``auto``, and refuse a device that does not exist here.

    Args:
        name: torch device, or "auto": that of the first network, else CUDA where there is one, else the CPU.
        models: models by name.

    Raises:
        InputError: the device cannot be used.
    """
    if name == "auto":
        given = models.values() if isinstance(models, Mapping) else ()
        networks = (getattr(model, "model", model) for model in given)
        for network in networks:
            if isinstance(network, nn.Module) and (first := next(network.parameters(), None)) is not None:
                return str(first.device)
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name).cpu()
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"--device {name}: not usable here: {str(error).splitlines()[0][:200]}") from None
    return name


def find_evaluation(name: str) -> Evaluation[Any]:
    """Find the record of an evaluation: a shipped one by its name, or one's own as ``file.py:name``.

    Raises:
        InputError: there is no such record.

    Example:
        >>> find_evaluation("lmse").version
        2
        >>> find_evaluation("lsme")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: evaluation `lsme` is not known; expected one of ...
    """
    place, _, attribute = RECORDS.get(name, name).rpartition(":")
    if not place:
        known, near = ", ".join(RECORDS), did_you_mean(name, RECORDS)
        raise InputError(f"evaluation `{name}` is not known; expected one of {known}, or file.py:name{near}")
    if place.endswith(".py"):
        if not Path(place).is_file():
            raise InputError(f"evaluation `{name}`: there is no file {place}{nearest_file(Path(place))}")
        with user_file(Path(place)) as module:
            record = getattr(module, attribute, None)
            own = [one for one, value in vars(module).items() if isinstance(value, Evaluation)]
    else:  # `user_module` looks up distributions, which takes a quarter of a second
        module = import_module(place) if name in RECORDS else user_module(place, name)[0]
        record, own = getattr(module, attribute, None), []
    if not isinstance(record, Evaluation):
        got = "none" if record is None else type(record).__name__
        raise InputError(
            f"{name}: expected an `Evaluation` named `{attribute}`, got {got}{did_you_mean(attribute, own)}"
        )
    if name not in RECORDS and record.name in RECORDS:
        raise InputError(f"{name}: `{record.name}` is a shipped evaluation; give it another `name`")
    return record
