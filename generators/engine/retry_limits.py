"""Limits of the engine: how long it waits, how often it tries again, how much it does at a time.

| event                                         | the engine                                               |
|-----------------------------------------------|----------------------------------------------------------|
| a render process is lost                      | starts another and tries its trace group again           |
| a group costs `PROCESSES_PER_GROUP` processes | lists the group as failed and goes on                    |
| a worker is lost                              | gives its slices to other workers                        |
| a group costs over `LOST_WORKERS` workers     | lists the group as failed and goes on                    |
| no disk, no device, no scheduler              | ends the run at once, because another try would not help |

Modules read these numbers as ``retry_limits.NAME``. Times are in seconds.
"""

# Render processes.
PROCESSES_PER_GROUP = 3  # render processes that a trace group may cost before the group counts as failed
START_LIMIT = 300.0  # until a process is ready; Blender loads in one second, from a cold network disk in many
END_LIMIT = 10.0  # until a killed process has ended; a process that waits for a lost disk or GPU never ends
PROBE_LIMIT = 120.0  # until the devices are listed; drivers that compile or wake up take their time

LOCKED_GROUPS_INTERVAL = 1.0  # between tries of trace groups that another run has locked

# Workers of a dask scheduler, each of which renders slices of the plan.
SLICE_SECONDS = 10.0  # until a worker hands back the rest of a slice; long enough to hide its overhead
LARGEST_SLICE = 64  # trace groups
SLICES_PER_WORKER = 2  # slices that a worker has at a time: one is rendered, one waits
LOST_WORKERS = 10  # workers that a group may cost; many, because jobs of batch systems end when time is up
CONNECT_LIMIT = 15.0  # until a scheduler answers
LOOK_INTERVAL = 2.0  # between looks at the list of workers; also the limit for fetching a result
JOIN_GRACE = 10.0  # for other workers to join when all present workers are left out
STOP_LIMIT = 10.0  # for telling workers that the run is over; a host that is down never answers
RESUBMIT_INTERVAL = 20.0  # between looks at whether jobs of a batch system ended and must be submitted again
