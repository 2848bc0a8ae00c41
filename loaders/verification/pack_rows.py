"""Compare rows of a pack with their own metadata: one check for both formats.

Hashes find changed bytes. A pack that somebody edited and hashed anew fits its hashes, so each row is also
compared with its metadata, from which `candlelight pack` made its columns.
"""

from collections.abc import Mapping

from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import array_sha256


def row_fault(
    frame: Frame, columns: Mapping[str, object], due: Mapping[str, object], row: str, seen: dict[str, str]
) -> str:
    """Find the first fault of a row.

    Args:
        frame: its metadata and layers.
        columns: values of its other columns as they are stored, by name; None for null.
        due: values of the same columns according to the metadata.
        row: name of the row, for messages.
        seen: names of rows by id of their sample, of the rows checked so far; this row is added.

    Returns:
        Description of the fault; "" if there is none.
    """
    metadata = frame.metadata
    if (first := seen.setdefault(metadata.id, row)) != row:
        return f"expected each sample once, got it in {first} too"
    for name, value in due.items():
        if (found := columns[name]) != value:
            got = "null" if found is None else f"{found!r:.60}"
            return f"column `{name}`: expected {value!r:.60}, as in its metadata, got {got}"
    for name, array in frame.layers.items():
        if array_sha256(array) != metadata.layers.get(name):
            return f"layer `{name}` differs from its hash"
    return ""
