"""The benchmarks run and count; how fast anything is, no test says.

The suite runs some of them, and `make test-long` those that take long.
"""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import time
from math import isfinite
from pathlib import Path
from urllib.error import URLError

import pytest
from code_lines import functions
from offenders import each

ROOT = Path(__file__).parent.parent
PYTHONPATH = os.pathsep.join([str(ROOT), str(ROOT / "protocol")])
RESULTS = ROOT / "benchmarks" / "results"
PATIENCE = 20.0  # seconds in which a signal arrives
sys.path.insert(0, str(ROOT))

from benchmarks import (  # noqa: E402 - they are no installed package
    alone,
    bound,
    durable,
    durable_table,
    idle,
    isolation_table,
    memory,
    nats_bench,
    obtain,
    overview,
    report,
    script,
    tables,
    tail,
    turns,
)
from benchmarks.__main__ import COMPILED  # noqa: E402
from benchmarks.attacks import BY_NAME  # noqa: E402
from benchmarks.outcomes import Outcome, Table  # noqa: E402
from benchmarks.peers.peer import Job, Peer  # noqa: E402
from benchmarks.processes import paused, process, resumed  # noqa: E402
from benchmarks.roles import peer_of  # noqa: E402
from benchmarks.scenarios import scenarios, sized  # noqa: E402
from benchmarks.serving import port_in, serving  # noqa: E402
from benchmarks.startup import COMMANDS  # noqa: E402
from zaichik.base.build import build, interpreter  # noqa: E402
from zaichik.client import blocking  # noqa: E402

pytestmark = pytest.mark.unmeasured  # brokers and clients run as in other tests, only longer


def run(*arguments):
    """A module of Python's, as a program."""
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600
    )


def benchmarks(*arguments):
    return run("benchmarks", *arguments)


def outcomes(directory):
    return [outcome for table in report.load(directory).tables for outcome in table.outcomes]


# The scenarios with the most to count, with their cells: stored and compacted; also from many, and
# replayed.
COUNTED = {
    "keepfirst": {"plain", "keep-first"},
    "keepfirst fanin replay": {"plain", "keep-first", "16 → 1", "live", "replay"},
}


@pytest.fixture(scope="module", params=COUNTED, ids=["one", "all"])
def counted(request, tmp_path_factory):
    """What these scenarios find."""
    directory = tmp_path_factory.mktemp("counted")
    of_zaichik = ("--peers", "zaichik", "limit", "codec")
    done = benchmarks(
        "--quick", *of_zaichik, "--only", *request.param.split(), "--out", str(directory)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout + done.stderr
    return directory


def test_every_message_is_counted(counted, request):
    found = outcomes(counted)
    cells = COUNTED[request.node.callspec.params["counted"]]
    assert {outcome.cell for outcome in found} == cells
    assert {outcome.peer for outcome in found} == {
        peer_of(name).label for name in ("zaichik", "limit", "codec")
    }
    assert all(outcome.figures and outcome.messages and not outcome.failures for outcome in found)


def test_a_broker_is_shown_as_a_share_of_each_limit(counted):
    (table, *_) = report.load(counted).tables
    shares = [row for row in tables.rows(table) if row[0].startswith("zaichik : ")]
    assert [row[0] for row in shares] == [
        "zaichik : bare relay",
        "zaichik : encode + decode, one process",
    ]
    assert all(cell.endswith("%") for row in shares for cell in row[1:] if cell)


def test_results_are_read_back_as_they_were_written(counted, tmp_path):
    results = report.load(counted)
    assert report.page(results) == (counted / "results.md").read_text(encoding="utf-8")
    report.write(tmp_path, results)
    for name in ("results.json", "results.md"):
        assert (tmp_path / name).read_bytes() == (counted / name).read_bytes()


def test_every_row_says_what_is_kept(counted):
    (table, *_) = report.load(counted).tables
    head, *body = tables.rows(table)
    zaichik = peer_of("zaichik")
    assert head[-1] == "kept"
    assert {row[0]: row[-1] for row in body}["zaichik"] == zaichik.keeps
    assert f"| zaichik | {zaichik.keeps} | {zaichik.batching} | zaichik " in report.page(
        report.load(counted)
    )


def test_quick_results_say_so(counted):
    assert "not how fast" in report.excerpt(counted)


@pytest.mark.long
def test_what_is_of_zaichik_alone_is_told_for_every_point(tmp_path):
    of_zaichik = ("roundtrip", "growth", "tail", "memory", "burst", "startup")
    done = benchmarks(
        "--quick", "--peers", "zaichik", "--only", *of_zaichik, "--out", str(tmp_path)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    by_name = {table.name: table for table in report.load(tmp_path).tables}
    assert [outcome.cell for outcome in by_name["roundtrip"].outcomes] == ["1,000/s", "10,000/s"]
    growth = tables.rows(by_name["growth"])
    assert [row[:2] for row in growth[1:5]] == [
        ["messages retained", "1,000"],
        ["messages retained", "10,000"],
        ["topics", "1"],
        ["topics", "100"],
    ]
    assert all(row[3] == "1.00" for row in growth[1::2]), "the first point is compared with itself"
    pauses = tables.rows(by_name["tail"])
    assert [row[:2] for row in pauses[1:]] == [
        [ring, rate] for ring in ("100", "10,000") for rate in ("1,000/s", "10,000/s")
    ]
    assert [sum(int(count.replace(",", "")) for count in row[6:]) for row in pauses[1:]] == [
        200,
        2000,
    ] * 2
    assert [row[0] for row in tables.rows(by_name["startup"])[1:]] == list(COMMANDS)
    assert all(outcome.figures["ms"][0] > 0 for outcome in by_name["startup"].outcomes)
    if memory.readable():
        assert all(outcome.figures["each"] for outcome in by_name["memory"].outcomes)
        (burst,) = (outcome.figures for outcome in by_name["burst"].outcomes)
        assert burst["at its peak"] > burst["before"]


@pytest.mark.long
def test_every_way_of_publishing_is_counted(tmp_path):
    ways = ["zaichik_bounded", "zaichik_batches"]
    done = benchmarks("--quick", "--peers", *ways, "--only", "throughput", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(outcomes(tmp_path)) == 6
    assert all(outcome.figures for outcome in outcomes(tmp_path))


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["nats", "jetstream", "redis_pubsub", "redis_streams", "mosquitto"]
)
def test_a_peer_that_is_installed_is_counted_too(name, tmp_path):
    peer = peer_of(name)
    if missing := peer.missing():
        pytest.skip(f"{missing} is not installed")
    only = "replay" if "replay" in peer.scenarios else "fanin"
    done = benchmarks("--quick", "--peers", name, "--only", only, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(outcome.figures for outcome in outcomes(tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("name", ["zaichik", "redis_streams", "mosquitto", "rabbitmq_pika"])
def test_programs_without_an_event_loop_are_measured(name, tmp_path):
    if missing := peer_of(name).missing():
        pytest.skip(f"{missing} is not installed")
    only = ("--only", "calls", "script")
    done = benchmarks("--quick", "--peers", name, *only, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    cells = {outcome.cell for outcome in outcomes(tmp_path) if outcome.figures}
    assert cells == {"1 thread", "4 threads", "by the clock", "processor time"}


@pytest.mark.long
@pytest.mark.parametrize("name", ["zaichik", "jetstream", "redis_streams", "rabbitmq_queue"])
def test_the_workers_of_a_queue_settle_every_message(name, tmp_path):
    if missing := peer_of(name).missing():
        pytest.skip(f"{missing} is not installed")
    done = benchmarks("--quick", "--peers", name, "--only", "work", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    cells = [outcome.cell for outcome in outcomes(tmp_path) if outcome.figures["messages/s"]]
    assert cells == [
        "1 worker",
        "4 workers",
        "16 workers",
        "1 worker, one at a time",
        "16 workers, one at a time",
    ]


def test_a_small_program_that_fails_is_not_measured():
    with pytest.raises(RuntimeError, match="ended with 3"):
        script.lived("raise SystemExit(3)", script.PROCESSOR)


def durable_benchmarks(directory, *arguments):
    """The tables by name."""
    done = run(
        "benchmarks.durable",
        "--quick",
        "--disk",
        str(directory),
        "--out",
        str(directory / "out"),
        *arguments,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in directory.iterdir()] == ["out"], "folders of brokers are left"
    return {table.name: table for table in report.load(directory / "out").tables}


@pytest.mark.long
def test_a_disk_is_read_and_waited_for(tmp_path):
    found = durable_benchmarks(tmp_path, "--only", "cold", "beside", "restart")
    assert all(
        len(table.columns()) >= 2 and not durable_table.failures(table) for table in found.values()
    )
    if hasattr(os, "posix_fadvise"):
        assert [name for _, name in found["cold"].columns()] == [
            "from the ring",
            "from a cold disk",
        ]
    assert "## Figures" in durable_table.excerpt(tmp_path / "out")


@pytest.mark.long
def test_what_survives_a_power_cut_is_counted(tmp_path):
    peer = peer_of("redis_always")
    if missing := peer.missing():
        pytest.skip(f"{missing} is not installed")
    table = durable_benchmarks(tmp_path, "--only", "publishing", "--peers", "redis_always")[
        "publishing"
    ]
    assert [outcome.cell for outcome in table.outcomes if outcome.figures["messages/s"]] == [
        "a stream",
        "1 task",
    ]
    assert durable_table.rows(table)[1][-1] == "everything acknowledged"


def test_a_durable_topic_is_compared_with_those_that_keep_the_same():
    figures = {
        "zaichik_memory": 40.0,
        "zaichik_durable": 20.0,
        "redis_always": 10.0,
        "kafka_unsynced": 80.0,
    }
    found = [
        Outcome(peer_of(name).label, "1 task", 0, figures={"messages/s": [it]})
        for name, it in figures.items()
    ]
    table = Table(
        "publishing",
        "",
        "messages/s",
        0.0,
        found,
        {peer_of(it).label: peer_of(it).keeps for it in figures},
    )
    assert [row[:2] for row in durable_table.rows(table)[5:]] == [
        ["durable topic : memory topic", "0.50"],
        ["durable topic : the best that keep the same", "2.00"],
        ["durable topic : the best that keep less", "0.25"],
    ]


def test_a_peer_on_a_disk_that_is_missing_has_a_row_with_the_reason():
    (scenario, *_) = durable.scenarios(0, quick=True)
    peer = peer_of("jetstream_always")
    table = durable.with_absent(
        Table("publishing", "", "messages/s", 0.0, []), scenario, {peer: "go is not there"}
    )
    row = durable_table.rows(table)[1]
    assert (row[0], row[-1]) == (
        peer.label,
        "everything acknowledged; not measured, because go is not there",
    )


def test_every_publisher_has_an_equal_share():
    (fanin,) = (scenario.cells[0] for scenario in scenarios(quick=True) if scenario.name == "fanin")
    for name in ("zaichik", "nats", "mosquitto", "limit", "codec"):
        job = sized(fanin.job, peer_of(name))
        assert job.messages > 0
        assert job.messages % job.publishers == 0


def test_limits_move_every_message_whatever_its_key():
    job = Job("publisher", "", 0, "", messages=1000, keys=10, keep_first=True)
    assert sized(job, peer_of("zaichik")).keep_first
    assert not sized(job, peer_of("limit")).keep_first


def test_growth_is_compared_run_by_run():
    """A run that is slow at both points shows no growth; the ratio of the medians would."""
    figures = {"1 publish": [10.0, 20.0, 30.0], "100 publish": [11.0, 60.0, 33.0]}
    outcome = Outcome("zaichik", "topics", 0, figures=figures)
    assert alone.ratios(outcome, "100", "publish") == pytest.approx([1.1, 3.0, 1.1])
    (_, _, row) = tables.rows(Table("growth", "", "µs", 0.0, [outcome]))
    assert row[:4] == ["topics", "100", "33", "1.10 (1.10 to 3.00)"]


def outcome_of(peer, *runs):
    return Outcome(peer, "100 B", 0, figures={"messages/s": list(runs)})


def test_the_overview_compares_with_the_best_other_broker():
    variant = outcome_of("zaichik, another way", 9e9)
    found = [
        outcome_of("zaichik", 406_618.0),
        variant,
        outcome_of("A", 1_000.0),
        outcome_of("B", 203_309.0, 203_309.0),
    ]
    found.append(Outcome("a limit", "100 B", 0, limit=True, figures={"messages/s": [9e9]}))
    head, *body = overview.rows(
        [Table("throughput", "", "messages/s", 0.0, found, {"A": "nothing"})]
    )
    assert head[1] == "100 B, messages/s"
    assert [row[:3] for row in body] == [
        ["zaichik", "407,000", "-"],
        ["A", "1,000", "-"],
        ["B", "203,000", "-"],
        ["zaichik : the best peer", "2.00", "-"],
    ]
    assert [row[-1] for row in body] == ["", "nothing", "", ""]


def test_a_table_of_fewer_runs_says_so():
    about = {"runs": 3, "quick": False, "machine": "a machine", "when": "2026-01-01"}
    few = Table(
        "burst", "Few", "MiB", 0.0, [Outcome("zaichik", "x", 0, figures={"before": [1.0, 2.0]})]
    )
    many = Table("throughput", "Many", "messages/s", 0.0, [outcome_of("zaichik", 1.0, 2.0, 3.0)])
    page = report.page(report.Results(about, [many, few]))
    assert page.count("Median of 3 runs") == 1
    assert "## Few\n\nMedian of 2 runs." in page


def test_less_is_better_for_latencies():
    (column,) = (column for column in overview.COLUMNS if column.less_is_better)
    assert overview.best_ratio({"zaichik": [30.0], "A": [20.0], "B": [60.0]}, column) == "1.50"


def test_every_pause_is_in_one_bar_of_the_histogram():
    bars = tail.histogram([0.0, 0.000_999, 0.001, 0.049, 0.2, 3.0])
    assert {name: count for name, count in bars.items() if count} == {
        "< 1 ms": 2,
        "< 2 ms": 1,
        "< 50 ms": 1,
        "≥ 200 ms": 2,
    }
    assert sum(bars.values()) == 6
    assert tail.quantiles([0.001] * 500 + [0.1])["max"] == 100.0


def test_the_rate_of_nats_bench_is_read_from_what_it_prints():
    printed = "x\nNATS Core NATS subscriber stats: 1,539,174 msgs/sec ~ 147 MiB/sec\n"
    assert nats_bench.rate(printed) == 1_539_174.0
    with pytest.raises(RuntimeError, match="no rate"):
        nats_bench.rate("NATS Core NATS publisher stats: 1,539,174 msgs/sec")


@pytest.fixture
def central(monkeypatch, tmp_path):
    """An empty cache, and a Maven Central that has one file; the paths that were asked for."""
    asked = []

    def answer(address, timeout):
        asked.append(address)
        if not address.endswith("a/b.jar"):
            raise URLError("no such file")
        return io.BytesIO(b"content")

    monkeypatch.setattr(obtain, "CACHE", tmp_path)
    monkeypatch.setattr(obtain.urllib.request, "urlopen", answer)
    return asked


def test_a_file_is_downloaded_once(central):
    checksum = hashlib.sha256(b"content").hexdigest()
    assert obtain.downloaded(checksum, "a/b.jar").read_bytes() == b"content"
    assert obtain.downloaded(checksum, "a/b.jar").read_bytes() == b"content"
    assert len(central) == 1


@pytest.mark.parametrize(
    ("path", "reason"), [("a/b.jar", "wrong SHA-256"), ("missing.jar", "no such file")]
)
def test_a_file_that_is_another_or_missing_is_not_kept(central, tmp_path, path, reason):
    with pytest.raises(obtain.Unobtainable, match=reason):
        obtain.downloaded("0" * 64, path)
    assert not [item for item in tmp_path.rglob("*") if item.is_file()]


def test_every_file_of_kafka_has_a_checksum(monkeypatch):
    monkeypatch.setattr(
        obtain, "downloaded", lambda checksum, path: (int(checksum, 16), len(checksum), Path(path))
    )
    found = obtain.kafka_jars()
    assert all(length == 64 and path.suffix == ".jar" for _, length, path in found)
    assert [path.name for *_, path in found if path.name.startswith("kafka_")] == [
        "kafka_2.13-4.1.1.jar"
    ]


class Broken(Peer):
    """A peer whose server ends at once, and which nobody could fetch."""

    label, keeps, batching, lasting = "broken", "nothing", "none", True

    def obtain(self):
        return "the registry is closed"

    def commands(self, directory, port):
        return [["sh", "-c", "echo out of order; exit 1"]]

    def link(self, job):
        raise NotImplementedError


def test_a_peer_that_cannot_be_obtained_or_started_is_left_out_with_the_reason(capsys):
    assert turns.present({"broken": Broken(), "zaichik": peer_of("zaichik")}).keys() == {"zaichik"}
    assert "broken is skipped: the registry is closed" in capsys.readouterr().err
    peers = {"broken": Broken()}
    with turns.lasting_servers(peers) as servers:
        assert not servers
    assert not peers
    assert "broken is skipped: the server did not start: out of order" in capsys.readouterr().err


def test_a_server_is_stopped_while_others_have_their_turn(tmp_path):
    with process(["sleep", "60"], tmp_path / "log", {}) as child:

        def happened(what):
            limit = time.monotonic() + PATIENCE
            while (found := os.waitid(os.P_PID, child.pid, what | os.WNOHANG)) is None:
                assert time.monotonic() < limit, "the signal was not sent"
            return found.si_code

        with paused(child.pid):
            assert happened(os.WSTOPPED) == os.CLD_STOPPED
            with resumed(child.pid):
                assert happened(os.WCONTINUED) == os.CLD_CONTINUED
            assert happened(os.WSTOPPED) == os.CLD_STOPPED
        assert happened(os.WCONTINUED) == os.CLD_CONTINUED


def test_stored_messages_are_as_many_and_as_large_as_they_are_said_to_be():
    requests = list(idle.messages("t", 300, 100))
    assert sum(request.batch.count for request in requests) == 300
    assert all(request.batch.size == 100 * request.batch.count for request in requests)


def test_there_is_nothing_to_show_before_anything_was_measured(tmp_path):
    assert "make bench" in report.excerpt(tmp_path)
    assert not durable_table.excerpt(tmp_path), "no section is better than an empty one"
    done = benchmarks("--redraw", str(tmp_path))
    assert done.returncode == 1
    assert "results.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_report_names_the_builds_of_zaichik_and_of_python():
    """Figures of two builds are not to be taken for those of two brokers."""
    machine = report.gather([], 1, [], quick=True).about["machine"]
    assert f" ({interpreter()}), zaichik {build()}, " in machine


@pytest.mark.parametrize("page", ["docs/understand/performance.md", "docs/run/durability.md"])
def test_the_documents_show_the_results_that_are_there(page):
    done = run("cogapp", "--check", "--diff", page)
    assert done.returncode == 0, f"run `make docs`\n{done.stdout}{done.stderr}"


@pytest.mark.skipif(not RESULTS.exists(), reason="there are no results yet")
def test_the_results_agree_with_each_other():
    results = report.load(RESULTS)
    assert not results.about["quick"]
    assert results.about["runs"] >= 5
    assert (RESULTS / "results.md").read_text(encoding="utf-8") == report.page(results)
    assert not [
        outcome.failures
        for table in results.tables
        for outcome in table.outcomes
        if outcome.failures
    ]


@pytest.mark.skipif(not durable_table.FOLDER.exists(), reason="there are no results yet")
def test_the_results_of_durable_topics_agree_with_each_other():
    results = report.load(durable_table.FOLDER)
    assert not results.about["quick"]
    assert (durable_table.FOLDER / "results.md").read_text(encoding="utf-8") == durable_table.page(
        results
    )


def test_a_changed_result_is_noticed(counted, tmp_path):
    results = report.load(counted)
    data = json.loads((counted / "results.json").read_text(encoding="utf-8"))
    data["scenarios"][0]["outcomes"][0]["figures"]["messages/s"] = [12_345_678.0]
    (tmp_path / "results.json").write_text(json.dumps(data), encoding="utf-8")
    assert "12,345,678" in report.page(report.load(tmp_path))
    assert "12,345,678" not in report.page(results)


@pytest.mark.long
def test_isolation_compares_an_attack_with_its_control():
    few = ("--connections", "2", "--seconds", "0.1", "--rounds", "2", "--json")
    done = run("benchmarks.isolation", "--attack", "pings", *few)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = (found := json.loads(done.stdout))["rows"]
    assert (row["attack"], row["connections"]) == ("pings", 2)
    turns = row["beside"] + row["control"]
    assert len(turns) == 4
    assert all(
        turn["awaited"] > 0 and turn["worst_ms"] >= turn["p999_ms"] > 0 and turn["stream"] > 0
        for turn in turns
    )
    assert not [failure for turn in turns for failure in turn["failures"]]
    assert {figure: len(ratios) for figure, ratios in row["ratios"].items()} == {
        "awaited": 2,
        "stream": 2,
    }
    assert set(found["summary"]) == {
        "lowest ratio",
        "median ratio",
        "largest p99.9 beyond control, ms",
    }


def test_an_attack_is_compared_round_by_round():
    """A round that was slow for both shows no harm; the ratio of the medians would."""
    turns = [
        isolation_table.Turn(awaited=rate, p999_ms=1.0, worst_ms=1.0, stream=10.0)
        for rate in (100.0, 10.0, 50.0)
    ]
    control = [
        isolation_table.Turn(awaited=rate, p999_ms=2.0, worst_ms=2.0, stream=20.0)
        for rate in (100.0, 10.0, 100.0)
    ]
    row = isolation_table.Row("pings", 1, turns, control)
    assert row.ratios("awaited") == [1.0, 1.0, 0.5]
    assert isolation_table.summary([row]) == {
        "lowest ratio": 0.5,
        "median ratio": 0.75,
        "largest p99.9 beyond control, ms": -1.0,
    }
    (missed,) = (line for line in isolation_table.table([row]).splitlines() if "MISSED" in line)
    assert missed.startswith("median ratio: 0.75 (target: at least 0.9")


def test_a_control_that_failed_proves_no_good():
    """A client that cannot even connect beside the control would otherwise make any broker look
    perfect.
    """
    good = isolation_table.Turn(awaited=10.0, p999_ms=1.0, worst_ms=1.0, stream=10.0)
    failed = isolation_table.Turn(
        awaited=0.0, p999_ms=1.0, worst_ms=1.0, stream=0.0, failures=["awaited: GONE"]
    )
    row = isolation_table.Row("pings", 1, [good], [failed])
    assert row.ratios("awaited") == row.ratios("stream") == [0.0]
    assert "1 clients failed" in isolation_table.table([row])


def test_isolation_describes_every_attack():
    done = run("benchmarks.isolation", "--help")
    assert done.returncode == 0
    assert all(name in done.stdout and (attack.__doc__ or "").splitlines()[0] in done.stdout
               for name, attack in BY_NAME.items())  # fmt: skip


def test_an_attack_that_is_not_known_is_refused():
    done = run("benchmarks.isolation", "--attack", "kindness")
    assert done.returncode == 2
    assert "never-reading" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("python", ["", sys.executable], ids=["this", "another"])
def test_a_broker_of_either_environment_says_where_it_listens(python):
    options = ["--limit", "max_topics=7"]
    command = serving(*options, python=python)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            with blocking.connect(port=port_in(process.stdout.readline())) as client:
                assert client.describe()["limits"]["max_topics"] == 7
        finally:
            process.terminate()


@pytest.mark.parametrize("program", ["isolation", "bound"])
def test_a_python_without_a_broker_is_refused(program):
    done = run(f"benchmarks.{program}", "--python", "/bin/false")
    assert done.returncode == 2
    assert "/bin/false is not a Python that has zaichik installed" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_memory_is_compared_with_what_is_reported_after_each_step():
    done = run("benchmarks.bound", "--step", "connections", "--step", "unread", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    empty, filled = json.loads(done.stdout)
    assert (empty["step"], filled["step"]) == ("connections", "unread")
    assert (empty["refused"], filled["refused"]) == (0, 0)
    assert filled["reported"] > empty["reported"]
    assert filled["grown"] > empty["grown"] > 0


@pytest.mark.long
def test_a_table_is_published_to_while_its_log_is_rewritten():
    done = run("benchmarks.cleaning", "--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    _, rate, delay, log, start = done.stdout.splitlines()
    assert float(rate.split()[-1]) > 0
    assert float(delay.split()[-1]) > 0
    assert "262,000 live" in log
    assert start.startswith("a start with 2,000 keys")


@pytest.mark.long
def test_packets_of_mqtt_are_read_and_written_in_both_ways():
    done = run("benchmarks.mqtt_codec", "--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if "read" in line and "write" in line]
    assert len(lines) == 7
    assert sum("fan-out" in line for line in lines) == 5


@pytest.mark.parametrize(("grown", "is_bounded"), [(129, True), (130, False)])
def test_memory_may_grow_by_a_quarter_more_than_is_reported(grown, is_bounded):
    point = bound.Point("keys", grown * bound.MIB, 100 * bound.MIB, refused=0, seconds=1.0)
    assert point.is_bounded is is_bounded
    assert ("MISSED" in bound.line(point)) is not is_bounded


def test_an_unknown_scenario_is_refused():
    done = benchmarks("--only", "everything")
    assert done.returncode == 2
    assert "throughput" in done.stderr


@each("path", sorted((ROOT / "benchmarks").rglob("*.py")), shown=lambda path: path.name)
def test_functions_stay_small(path):
    assert [name for name, lines in functions(path) if lines > 50] == []


def test_compiled_peers_run_what_was_compiled_on_both_sides(monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.peers.zaichik_compiled.compiled_zaichik", lambda: tmp_path)
    package = tmp_path / "zaichik"
    package.mkdir()
    (package / "__init__.py").write_text("print('what was compiled')")
    for name in COMPILED:
        peer = peer_of(name)
        for environment in (peer.environment(tmp_path, 0), peer.client_environment()):
            run_there = subprocess.run(
                [sys.executable, "-c", "import zaichik, benchmarks"],
                env={**os.environ, **environment},
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=True,
            )
            assert run_there.stdout == "what was compiled\n"


def test_each_build_is_compared_with_the_best_of_the_others():
    speeds = {
        "zaichik": [20.0],
        "zaichik (compiled)": [40.0],
        "zaichik, bounded ring": [99.0],
        "other": [10.0],
    }
    outcomes = [
        Outcome(peer, "100 B", 1, figures={"messages/s": runs}) for peer, runs in speeds.items()
    ]
    table = Table("throughput", "Throughput", "messages/s", 1.0, outcomes)
    for rows in (tables.rows(table), overview.rows([table])):
        found = {row[0]: row[1] for row in rows}
        assert found["zaichik : the best peer"] == "2.00"
        assert found["zaichik (compiled) : the best peer"] == "4.00"


@pytest.mark.long
def test_the_gateway_for_the_original_is_measured():
    done = run("benchmarks.legacy", "--seconds", "0.1", "--runs", "1")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "gateway",
        "without",
        "with",
        "ratio",
    ]


@pytest.mark.long
def test_the_gateway_for_mqtt_is_measured():
    done = run("benchmarks.mqtt", "--readers", "3", "--messages", "300", "--runs", "1")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[:2] for line in lines[1:]] == [["0", "1"], ["0", "3"], ["1", "1"], ["1", "3"]]


@pytest.mark.long
def test_a_cluster_is_measured_and_more_of_it_computed():
    done = run("benchmarks.cluster", "--quick")
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if "|" in line]
    measured = [row for row in rows if len(row) == 4 and row[0] in {"1", "2", "4"}]
    # The shards that were run, and then their maps.
    assert [row[0] for row in measured] == ["1", "2", "4"] * 2
    assert all(float(figure.replace(",", "")) > 0 for row in measured for figure in row)
    modelled = [row for row in rows if len(row) > 4][2:]
    assert [row[0] for row in modelled] == ["10", "100", "1,000"]
    assert "It assumes" in done.stdout


@pytest.mark.long
def test_what_acknowledgement_after_replication_costs_is_measured():
    done = run("benchmarks.acked", "--messages", "5", "--tasks", "3", "--each", "2", "--runs", "1")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[:2] for line in lines[1:]] == [["0", "-"], ["0", "kafka"]]


@pytest.mark.long
def test_what_looking_costs_is_measured():
    done = run("benchmarks.views", "--quick")
    assert done.returncode == 0, done.stderr
    lines = [line.split("|")[1:3] for line in done.stdout.splitlines() if line.startswith("|")]
    found = {name.strip(): value.split("; ") for name, value in lines}
    costs = [name for name, figures in found.items() if len(figures) == 6][1:]
    assert [name.split()[0] for name in costs] == [
        "nobody",
        "one",
        "ten",
        "zaichik",
        "its",
        "no",
        "/metrics",
        "the",
    ]
    assert all(
        isfinite(float(figure)) for name in costs for figure in found[name]
    )  # of so few messages, anything
    scraped = [found[name] for name in found if re.fullmatch(r"[\d,]+; [\d,]+; [\d,]+", name)]
    assert len(scraped) == 5
    assert all(float(figure) > 0 for figures in scraped for figure in figures)
    whole, change = map(float, found["a whole state, KiB; a change, KiB"])
    assert 0 <= change < whole
