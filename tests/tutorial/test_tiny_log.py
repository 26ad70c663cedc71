"""The log in one file: what was acknowledged is there, and nothing else is ever delivered."""

import ast
import errno
import importlib.util
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from chapter import TUTORIAL

CHAPTER = TUTORIAL / "17-what-a-disk-changes"
GROUPS = [
    [b"two apples"],
    [b"a pear", b"", b"two pears"],
    [b"a plum " * 20],
    [b"tiny", b"a fig"],
    [b"two apples"] * 3,
]


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


tiny_log = module(TUTORIAL / "tiny_log.py")
Disk = module(CHAPTER / "experiments" / "plug.py").Disk


@pytest.fixture
def written():
    """A log of several groups: its bytes, its bodies, and the size of the file after each record
    and each group.
    """
    disk, records, groups = Disk(), [0], [0]
    log = tiny_log.Log(disk)
    for group in GROUPS:
        log.write(*group)
        for body in group:
            records.append(records[-1] + tiny_log.SIZE + len(body))
        groups.append(len(disk.read()))
    return disk.read(), log.bodies, records, groups


def found_in(data):
    """What a start finds in a file with these bytes; and its disk, which may have been cut."""
    disk = Disk()
    disk.write(0, data)
    return tiny_log.Log(disk), disk


def test_every_prefix_recovers_the_whole_records_and_goes_on_after_them(written):
    data, bodies, records, _ = written
    assert records[-1] == len(data)
    for size in range(len(data) + 1):
        whole = sum(end <= size for end in records) - 1
        log, disk = found_in(data[:size])
        assert log.bodies == bodies[:whole]
        assert log.verdict == (tiny_log.WHOLE if size in records else tiny_log.TORN)
        assert len(disk.read()) == records[whole]
        log.write(b"one more")
        assert tiny_log.Log(disk).bodies == [*bodies[:whole], b"one more"]


def test_a_flipped_bit_is_never_delivered_and_is_damage_unless_it_is_in_the_last_group(written):
    data, bodies, records, groups = written
    for bit in range(8 * len(data)):
        bad = bytearray(data)
        bad[bit // 8] ^= 1 << bit % 8
        log, disk = found_in(bytes(bad))
        assert log.bodies == bodies[: sum(end <= bit // 8 for end in records) - 1]
        if bit // 8 < groups[-2]:
            assert log.verdict == tiny_log.DAMAGED
            assert disk.read() == bad, "what is damaged is kept as it is"
        else:
            assert log.verdict == tiny_log.TORN


def test_what_is_damaged_takes_no_more(written):
    data, *_ = written
    log, disk = found_in(b"\0" + data[1:])
    for put in (log.write, log.append):
        with pytest.raises(OSError, match="damaged"):
            put(b"one more")
    assert len(disk.read()) == len(data)


def test_zeros_are_a_torn_end(written):
    data, bodies, *_ = written
    log, disk = found_in(data + bytes(1000))
    assert (log.bodies, log.verdict, disk.read()) == (bodies, tiny_log.TORN, data)


def test_a_power_cut_loses_nothing_that_was_acknowledged_and_is_never_taken_for_damage():
    for seed in range(300):
        chance, disk = random.Random(seed), Disk(seed)
        log = tiny_log.Log(disk)
        for _ in range(chance.randrange(4)):
            log.write(*(chance.randbytes(chance.randrange(900)) for _ in range(3)))
        acknowledged = list(log.bodies)
        disk.sync = disk.pull_the_plug
        log.write(*(chance.randbytes(chance.randrange(900)) for _ in range(chance.randrange(1, 7))))
        after = tiny_log.Log(disk)
        assert after.verdict != tiny_log.DAMAGED, seed
        assert after.bodies == log.bodies[: len(after.bodies)], seed
        assert len(after.bodies) >= len(acknowledged), seed


def test_a_failed_sync_is_the_end_for_all_and_is_not_tried_again():
    class Failing(Disk):
        syncs = 0

        def sync(self):
            self.syncs += 1
            raise OSError(errno.EIO, "Input/output error")

    disk = Failing()
    log = tiny_log.Log(disk)
    with ThreadPoolExecutor(8) as threads:
        orders = [threads.submit(log.append, b"two apples") for _ in range(40)]
    assert all(isinstance(order.exception(), OSError) for order in orders)
    assert disk.syncs == 1
    assert log.bodies == []


def test_on_a_real_disk_many_threads_share_syncs_and_all_they_wrote_is_found_again(tmp_path):
    disk = tiny_log.File(tmp_path / "orders.log")
    log = tiny_log.Log(disk)
    orders = [b"order %d" % number for number in range(200)]
    with ThreadPoolExecutor(20) as threads:
        list(threads.map(log.append, orders))
    os.truncate(tmp_path / "orders.log", (tmp_path / "orders.log").stat().st_size - 1)
    after = tiny_log.Log(tiny_log.File(tmp_path / "orders.log"))
    assert after.verdict == tiny_log.TORN
    assert after.bodies == log.bodies[:-1]
    assert sorted(log.bodies) == sorted(orders)


def test_it_is_the_program_of_its_chapter_and_asks_for_nothing_but_the_standard_library():
    here, there = (
        path.read_text(encoding="utf-8")
        for path in (TUTORIAL / "tiny_log.py", CHAPTER / "end/tiny_log.py")
    )
    assert here.partition('"""\n\n')[2] == there.partition('"""\n\n')[2]
    imported = [
        node for node in ast.walk(ast.parse(here)) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    names = {
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imported
    }
    assert names <= sys.stdlib_module_names


def test_the_disk_with_a_plug_is_as_short_as_its_chapter_says():
    assert len((CHAPTER / "experiments" / "plug.py").read_text(encoding="utf-8").splitlines()) <= 60
