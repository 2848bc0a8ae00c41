"""The result of one trace group: written, failed, crashed, fatal or locked.

The render process answers for each group (`render_server`). Its owner makes a `GroupResult` from the answer,
or from the loss of the process (`render_process`). The worker tries crashed groups again (`worker`), the run
collects the results (`tasks`), and `render_plan` counts them and writes logs of failed samples.
"""

from dataclasses import dataclass
from enum import StrEnum


class GroupStatus(StrEnum):
    """States of a trace group, and the next step for each.

    | status  | cause                                               | next                                 |
    |---------|-----------------------------------------------------|--------------------------------------|
    | WRITTEN | all samples are on disk                             | the samples are counted              |
    | FAILED  | the renderer refused the group                      | a log is written, the run goes on    |
    | CRASHED | the render process was lost over the group          | another try, then as FAILED          |
    | FATAL   | no other group would succeed, as with a full disk   | the run ends with the error          |
    | LOCKED  | another run holds the group lock                    | the group is tried again at the end  |
    """

    WRITTEN = "written"
    FAILED = "failed"
    CRASHED = "crashed"
    FATAL = "fatal"
    LOCKED = "locked"


@dataclass(frozen=True)
class GroupResult:
    """The result of one trace group.

    Attributes:
        status: state of the group.
        written: ids of the samples that were written for this result.
        error: reason in one line; empty if the status is WRITTEN or LOCKED.
        log: end of the output of the render process, for FAILED and CRASHED.
        cpu_seconds: CPU time of the render process since its previous answer, or since its start.
        seconds: time that the worker waited for the group.
    """

    status: GroupStatus
    written: tuple[str, ...] = ()
    error: str = ""
    log: str = ""
    cpu_seconds: float = 0.0
    seconds: float = 0.0
