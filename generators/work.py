"""The worker's end of a run: it claims trace groups, and has its own render child do them."""

from collections.abc import Sequence

from generators.child import Job, Receipt, RenderChild
from generators.claims import Claims
from generators.scene import SamplePlan
from loaders.frames import is_complete

Group = tuple[SamplePlan, ...]

TRIES = 3  # a group that costs that many children is set aside

_children: dict[str, RenderChild] = {}  # by address of the worker that owns it


def render_groups(job: Job, groups: Sequence[Group]) -> list[Receipt]:
    """Render trace groups in this worker's child, but for those that another run is at work on.

    Args:
        job: what they are rendered for.
        groups: the groups.

    Returns:
        What became of each.
    """
    try:
        claims = Claims(job.root)
    except OSError as error:
        return [Receipt(error=str(error), fatal=True)] * len(groups)
    try:
        free = [group for group in groups if claims.take(group[0].group)]
        # Another run may have finished some since this one looked.
        left = {group[0].group: _missing(job, group) for group in free}
        asked = [group for group in left.values() if group]
        answers = dict(zip((group[0].group for group in asked), _answers(_child(job), asked), strict=True))
    finally:
        claims.close()
    there = dict.fromkeys(left, Receipt())
    return [(there | answers).get(group[0].group, Receipt(busy=True)) for group in groups]


def retire_children() -> None:
    """Stop every child of this process at once, and whoever waits for one."""
    for child in list(_children.values()):
        child.retire()


def close_children() -> None:
    """Close what is left of this process's children, when no thread of a worker uses one."""
    while _children:
        _children.popitem()[1].close()


def _child(job: Job) -> RenderChild:
    from distributed import get_worker

    address = get_worker().address
    child = _children.get(address)
    if child is None or child.job != job:
        if child is not None:
            child.close()
        child = _children[address] = RenderChild(job)
    return child


def _missing(job: Job, group: Group) -> Group:
    return tuple(sample for sample in group if not is_complete(job.root, sample.set, sample.index))


def _answers(child: RenderChild, groups: Sequence[Group]) -> list[Receipt]:
    """Render groups, and those that may have killed the child once more, each by itself."""
    receipts: list[Receipt] = []
    while len(receipts) < len(groups):
        left = groups[len(receipts) :]
        receipts += child.render_all(left)
        if receipts[-1].died and not receipts[-1].fatal:
            # Of several groups it is not known which one the child died of.
            lost = 1 if len(left) == 1 else 0
            receipts[-1] = _alone(child, groups[len(receipts) - 1], TRIES - lost, receipts[-1])
        if receipts[-1].fatal:
            receipts += [receipts[-1]] * (len(groups) - len(receipts))
    return receipts


def _alone(child: RenderChild, group: Group, tries: int, receipt: Receipt) -> Receipt:
    """Render one group, which is given up when it has cost that many children."""
    for _ in range(tries):
        receipt = child.render(group)
        if not receipt.died:
            break
    return receipt
