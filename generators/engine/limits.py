"""What the engine does when something is slow, lost or refused: every count and limit of it, in one place.

A render child that is lost is replaced, and its trace group tried again; a worker that is lost is replaced by
whoever started it, and its tasks go to other workers. A group or a task that costs too many of them is set
aside, and the run goes on. What no other try mends (no disk, no device, no scheduler) ends the run at once.
`loaders.files.object_stores` has its own pauses between tries of an object store, because readers use it,
too.

Modules read these as ``limits.NAME``. Times are in seconds.
"""

# Render children, each owned by one worker.
PROCESSES_PER_GROUP = 3  # children that a trace group may cost before it is set aside
START_LIMIT = 300.0  # until a child is ready; Blender loads in one, from a cold network disk in many
END_LIMIT = 10.0  # until a killed process is gone; one that waits for a lost disk or GPU never is
PROBE_LIMIT = 120.0  # for listing the devices; drivers that compile or wake up take their time
# Groups that are copied to a store at a time, for it takes long to answer and does much at once; so far a
# child may be ahead, that what it wrote does not pile up.
UPLOADS = 8

# Workers of a scheduler.
# How many a task may cost; those of batch systems end when their time is up, which blames no task.
LOST_WORKERS = 10
TASKS_PER_WORKER = 2  # tasks that a worker has at a time: one at work, one waiting
CONNECT_LIMIT = 15.0  # until a scheduler answers
LOOK_INTERVAL = 2.0  # between looks at which workers are there, and for fetching a result
JOIN_GRACE = 10.0  # that workers may still join which can render, once all that are there cannot
STOP_LIMIT = 10.0  # for telling workers that the run is over; a host that is down never hears it
RESUBMIT_INTERVAL = (
    20.0  # between looks at whether jobs of a batch system have ended, and are to be submitted again
)

# Tasks of a few trace groups each.
TASK_SECONDS = 4.0  # that a task should take: long enough to hide what a task costs, short enough to lose
LARGEST_TASK = 256  # groups
LOCKED_GROUPS_INTERVAL = 1.0  # between looks at what another run is at work on
