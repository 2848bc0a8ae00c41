"""Append answers to the log of an experiment, and continue a log."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import Any

from candlelight.evaluation.perception.experiment.read_answers import AnswerRecord, LogHeader, read_log
from candlelight.loaders.errors import InputError, blame
from candlelight.loaders.files.safe_writing import lock_file, sync
from candlelight.version import code_version


class AnswerLog:
    """A log that is open for writing (context manager); each answer is on the disk before `append` returns.

    Attributes:
        path: the file.
        records: answers that were there, and those of this session.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Begin a log, or continue it; a last line that was cut off is removed.

        Args:
            path: the file; made if it does not exist, begun anew if it has no answers.
            settings: all that the plan of the trials depends on but the observer.

        Raises:
            InputError: the file cannot be written, is no log, is damaged, has other settings, or another
                program writes to it.
        """
        self.path = path
        self.records: list[AnswerRecord] = []
        with ExitStack() as unfinished:
            try:
                self._file = unfinished.enter_context(
                    FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+")
                )
            except OSError as error:
                raise blame(f"{path}: cannot be written", error, "name another file") from None
            _lock(path, self._file)
            if path.stat().st_size > 0:
                header, self.records = read_log(path)
            if self.records:
                _check_settings(path, header.settings, settings)
                self._file.truncate(path.read_bytes().rfind(b"\n") + 1)
            else:  # settings count from the first answer
                self._file.truncate(0)
                self._write(LogHeader(version=code_version(), settings=dict(settings)))
                sync(path.parent)
            self._file.seek(0, os.SEEK_END)
            unfinished.pop_all()

    def __enter__(self) -> "AnswerLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()  # and the lock ends

    def answered(self, observer: str) -> set[int]:
        """List the numbers of the trials that an observer has answered."""
        return {record.trial for record in self.records if record.observer == observer}

    def append(self, record: AnswerRecord) -> None:
        """Write an answer and sync it to disk.

        Raises:
            InputError: another program replaced, deleted or changed the file; its copy lacks the answer.
            OSError: the disk is full or fails; nothing of the answer is kept.
        """
        self._check_place()
        self._write(record)
        self.records.append(record)

    def _check_place(self) -> None:
        """Compare the open file with its path: an editor or a program that syncs folders may replace it."""
        there = os.fstat(self._file.fileno())
        try:
            found = self.path.stat()
        except FileNotFoundError:
            problem = "was deleted or moved"
        else:
            if (found.st_dev, found.st_ino) != (there.st_dev, there.st_ino):
                problem = "was replaced by another file"
            elif found.st_size != self._file.tell():
                problem = "was changed by another program"
            else:
                return
        raise InputError(
            f"{self.path}: {problem} during the experiment, so this answer is not logged; end the "
            "experiment, put the file in its place, and run the same command again"
        )

    def _write(self, record: LogHeader | AnswerRecord) -> None:
        start = self._file.tell()
        data = f"{record.model_dump_json()}\n".encode()
        try:
            if self._file.write(data) != len(data):
                raise OSError(f"{self.path}: the disk is full")
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(start)
            self._file.seek(start)
            raise


def _lock(path: Path, file: FileIO) -> None:
    import fcntl  # here, because reading a log works on systems without it

    try:
        lock_file(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            f"{path}: another experiment writes to it; end that one first, or name another file"
        ) from None


def _check_settings(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    names: Sequence[str] = list(dict.fromkeys([*old, *new]))
    for name in names:
        if old.get(name) != new.get(name):
            raise InputError(
                f"{path}: was begun with {name} {_shown(old.get(name))}, got {_shown(new.get(name))}; repeat "
                "the settings to continue it, or name another file"
            )


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(one)}" for name, one in value.items() if one is not None) or "none"
    return "none" if value is None else str(value)
