import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.packs import finished_rows
from candlelight.loaders.packs.finished_rows import append_rows, count_finished_rows, read_finished_rows


def write_parts(folder, first, rows):
    return list(append_rows(folder, first, rows))


ROWS = [[bytes([number]) * number, b"", b"x" * 50] for number in range(9)]


def test_rows_are_read_back_for_any_size_of_parts(tmp_path, monkeypatch):
    for size in (1, 120, 10**6):
        folder = tmp_path / str(size)
        folder.mkdir()
        monkeypatch.setattr(finished_rows, "PART_BYTES", size)
        assert write_parts(folder, 0, iter(ROWS[:5])) == ROWS[:5]
        assert count_finished_rows(folder) == 5
        write_parts(folder, 5, iter(ROWS[5:]))
        assert (count_finished_rows(folder), list(read_finished_rows(folder, 3))) == (9, ROWS)
        assert not list(folder.glob(".*"))
    assert [len(list((tmp_path / name).iterdir())) for name in ("1", "120", "1000000")] == [9, 5, 2]


def test_only_finished_parts_count(tmp_path, monkeypatch):
    monkeypatch.setattr(finished_rows, "PART_BYTES", 250)

    def rows():
        yield from ROWS[:4]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_parts(tmp_path, 0, rows())
    assert count_finished_rows(tmp_path) == 3
    assert list(read_finished_rows(tmp_path, 3)) == ROWS[:3]


def test_parts_after_a_gap_do_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(finished_rows, "PART_BYTES", 1)
    write_parts(tmp_path, 0, iter(ROWS))
    (tmp_path / "000000004-000000005.part").unlink()
    assert (count_finished_rows(tmp_path), list(read_finished_rows(tmp_path, 3))) == (4, ROWS[:4])
    write_parts(tmp_path, 4, iter(ROWS[4:]))
    assert list(read_finished_rows(tmp_path, 3)) == ROWS


def test_empty_input_writes_no_parts(tmp_path):
    write_parts(tmp_path, 0, iter([]))
    assert (
        count_finished_rows(tmp_path),
        list(tmp_path.iterdir()),
        list(read_finished_rows(tmp_path, 2)),
    ) == (0, [], [])


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-3], lambda d: d[:30], lambda d: d[:20] + b"?" + d[21:], lambda _: b""]
)
def test_a_damaged_part_is_named(tmp_path, damage):
    write_parts(tmp_path, 0, iter([[b"a" * 30, b"b" * 30]]))
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"000000000-000000001.part is damaged; delete .* and pack again"):
        list(read_finished_rows(tmp_path, 2))
