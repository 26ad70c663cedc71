"""Nodes with a real ZooKeeper, an ensemble of three, killed and stopped by pairs."""

import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from itertools import combinations

import anyio
import pytest
from machines import Machine, Publishers, connected, kill_process, topic_of

import zaichik
from benchmarks.obtain import Unobtainable
from benchmarks.zookeepers import ZooKeepers

pytestmark = pytest.mark.gateways
SHARDS = 4
FIRST_PORT = {"a": 24_100, "b": 24_200, "c": 24_300}


def zookeepers(folder, count):
    """Returns servers that are not started; without them, the test is skipped."""
    if shutil.which("java") is None:
        pytest.skip("there is no java, which ZooKeeper needs")
    try:
        return ZooKeepers(folder, count)
    except Unobtainable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    servers = zookeepers(tmp_path_factory.mktemp("ensemble"), 3)
    servers.start()
    servers.wait()
    yield servers
    servers.close()


@pytest.fixture
def machine(tmp_path, ensemble, request):
    """Make machines of a cluster of this test's own; they are killed at its end."""
    made = []

    def make(name, shards=SHARDS, most=2, *options):
        path = f"/{request.node.name.replace('/', '-')}"
        one = Machine(
            name, tmp_path, f"{ensemble.hosts}{path}", FIRST_PORT[name], shards, most, *options
        )
        made.append(one)
        return one

    yield make
    for one in made:
        one.kill()


# -- each trouble, and each pair of them -----------------------------------------------------------


class Scene:
    """Two machines, three ZooKeepers, and what may befall them."""

    def __init__(self, ensemble, a, b):
        self.ensemble = ensemble
        self.a = a
        self.b = b
        self.mending = []

    def broker_killed(self):
        kill_process(self.a.brokers()[0])

    def broker_stopped(self):
        pid = self.a.brokers()[1]
        subprocess.run(["kill", "-STOP", str(pid)], check=True)
        self.mending.append(
            lambda: subprocess.run(["kill", "-CONT", str(pid)], check=False, capture_output=True)
        )

    def node_killed(self):
        self.a.kill()
        self.mending.append(self.a.start)

    def node_stopped(self):
        self.a.signal(signal.SIGSTOP)
        self.mending.append(lambda: self.a.process and self.a.signal(signal.SIGCONT))

    def zookeeper_killed(self):
        self.ensemble.kill(0)
        self.mending.append(lambda: self.ensemble.start(0))

    def zookeeper_stopped(self):
        self.ensemble.freeze(1)
        self.mending.append(lambda: self.ensemble.thaw(1))

    def mend(self):
        # Last first: a node that was stopped and then killed is started, and not woken.
        for mend in reversed(self.mending):
            mend()
        self.mending.clear()


TROUBLES = (
    *("broker_killed", "broker_stopped", "node_stopped", "node_killed"),
    *("zookeeper_killed", "zookeeper_stopped"),
)
# A node that is killed takes its brokers with it, so these come first.
PAIRS = [(one,) for one in TROUBLES] + list(combinations(TROUBLES, 2))


def test_nothing_acknowledged_is_lost_or_twice_whatever_is_killed_or_stopped(ensemble, machine):
    """CL-1b, CL-2, CL-4, CL-5, CL-7. While it lasts, the other machine's shards go on."""
    scene = Scene(ensemble, machine("a").start(), machine("b"))
    here = {int(shard) for shard in scene.a.ready()["served"]}
    scene.b.start()
    others = {int(shard) for shard in scene.b.ready()["served"]}
    assert (len(here), others) == (2, {*range(SHARDS)} - here)
    assert here == {0, 1}
    waits = {}

    async def run():
        async with connected(FIRST_PORT["b"] + 2) as cluster, anyio.create_task_group() as tasks:
            publishers = Publishers(cluster, SHARDS)
            await publishers.begin(tasks)
            await publishers.go_on(range(SHARDS))
            for pair in PAIRS:
                for ledger in publishers.ledgers:
                    ledger.longest_s = 0.0
                for trouble in pair:
                    getattr(scene, trouble)()
                # Longer than a session lasts.
                await anyio.sleep(3)
                await publishers.go_on(others, 20)
                scene.mend()
                await publishers.go_on(range(SHARDS))
                waits[pair] = [round(ledger.longest_s, 2) for ledger in publishers.ledgers]
                sys.stderr.write(f"{' and '.join(pair):40} longest waits {waits[pair]} s\n")
            publishers.is_over = True
            await publishers.go_on(())
            # All have ended by then: each waits for its last acknowledgement.
            await anyio.sleep(0.1)
            await publishers.check()
            counts = [len(ledger.acknowledged) for ledger in publishers.ledgers]
            doubtful = [len(ledger.doubtful) for ledger in publishers.ledgers]
            sys.stderr.write(f"acknowledged {counts}, doubtful {doubtful}\n")
            tasks.cancel_scope.cancel()

    anyio.run(run)
    assert (scene.a.stop(), scene.b.stop()) == (0, 0)


# -- who has a shard -------------------------------------------------------------------------------


def test_of_two_nodes_that_claim_one_shard_one_has_it(machine):
    a, b = machine("a", 1, 1).start(), machine("b", 1, 1).start()
    served = [a.ready()["served"], b.ready()["served"]]
    assert sorted(map(len, served)) == [0, 1]
    shown = a.run("--connect", *[place["0"] for place in served if place])
    assert shown.stdout.count("127.0.0.1") == 1


def test_a_second_machine_of_the_name_ends_and_the_first_goes_on(machine, tmp_path):
    """CL-1c."""
    a = machine("a", 1, 1).start()
    a.ready()
    other = machine("a", 1, 1, "--data", str(tmp_path / "other"))
    other.log = tmp_path / "other.log"
    assert other.start().ended() == 1
    assert "another machine named a" in other.log.read_text()
    assert a.process.poll() is None


def test_a_node_that_was_killed_waits_for_its_own_session_and_serves_again(machine):
    a = machine("a", 1, 1).start()
    a.ready()
    a.kill()
    assert a.start().ready()["served"] == {"0": f"127.0.0.1:{FIRST_PORT['a']}"}


def test_a_shard_restored_elsewhere_is_served_there_and_stopped_where_it_was(machine, tmp_path):
    """CL-5, CL-6: the node was cut off, and what it is told when it is back is that it has lost."""
    a, b = machine("a", 1, 1).start(), machine("b", 1, 1).start()
    a.ready()
    first, second = (a, b) if 0 in a.brokers() else (b, a)
    topic = topic_of(0, 1)

    async def publish(payload):
        async with connected(first.first_port) as cluster:
            await cluster.create_topic(topic, durable=True)
            await cluster.publish(topic, payload)

    anyio.run(publish, b"before")
    first.signal(signal.SIGSTOP)
    shutil.copytree(tmp_path / first.name / "shard-0", tmp_path / "copy")
    restore = ("restore", "0", *second.options[:6], "--first-port", str(second.first_port))
    done = second.run(*restore, "--from", str(tmp_path / "copy"))
    while "is there: stop its node first" in done.stderr:
        # Until its session has expired.
        done = second.run(*restore, "--from", str(tmp_path / "copy"))
    assert done.returncode == 0, done.stderr
    second.logged("shard 0 is served at")

    async def read():
        async with connected(second.first_port) as cluster:
            await cluster.publish(topic, b"after")
            async with cluster.subscribe(topic, until=2) as subscription:
                return [message.payload async for message in subscription]

    assert anyio.run(read) == [b"before", b"after"]
    first.signal(signal.SIGCONT)
    first.logged(f"shard 0 is at machine {second.name} now")
    while first.brokers():
        pass


# -- ZooKeeper is away, or refuses -----------------------------------------------------------------


@contextmanager
def zookeeper_of_its_own(folder):
    servers = zookeepers(folder, 1)
    try:
        yield servers
    finally:
        servers.close()


def test_a_start_waits_for_zookeeper_unless_it_is_to_serve_alone(tmp_path):
    """CL-7."""
    with zookeeper_of_its_own(tmp_path) as servers:
        a = Machine("a", tmp_path, f"{servers.hosts}/z", FIRST_PORT["a"], 1, 1)
        try:
            a.start().logged("ZooKeeper does not answer yet")
            assert a.brokers() == {}
            servers.start()
            a.ready()
            # A session of a ZooKeeper that is killed lasts until it is back.
            servers.kill(0)
            a.logged("ZooKeeper is away")
            kill_process(a.brokers()[0])
            a.logged("exit code -9")
            assert anyio.run(_ping, a.first_port)
            a.kill()
            assert a.start("--serve-alone").ready()["served"]
            assert anyio.run(_ping, a.first_port)
            servers.start()
            a.logged("ZooKeeper answers")
            assert a.stop() == 0
        finally:
            a.kill()


async def _ping(port):
    async with connected(port) as cluster:
        await cluster.publish("x", b"x")
    return True


def test_a_path_that_is_missing_or_refused_is_said(tmp_path):
    kazoo_client = pytest.importorskip("kazoo.client")
    from kazoo.security import make_digest_acl

    login = tmp_path / "login"
    login.write_text("zaichik:secret\n")
    login.chmod(0o600)
    with zookeeper_of_its_own(tmp_path) as servers:
        servers.start()
        servers.wait()
        keeper = kazoo_client.KazooClient(servers.hosts)
        keeper.start()
        keeper.create("/shut", b"", acl=[make_digest_acl("zaichik", "secret", all=True)])
        keeper.stop()
        keeper.close()
        a = Machine("a", tmp_path, f"{servers.hosts}/missing", FIRST_PORT["a"], 1, 1)
        a.options.remove("--create-path")
        assert a.start().ended() == 1
        assert "ZooKeeper has no path /missing" in a.log.read_text()
        for name, path in (("\N{CAT}", "odd"), ("odd", "\N{CAT}")):
            odd = Machine(name, tmp_path, f"{servers.hosts}/{path}", FIRST_PORT["a"], 1, 1)
            assert odd.start().ended() == 1
            assert "ZooKeeper takes no path such as" in odd.log.read_text()
        shut = Machine("b", tmp_path, f"{servers.hosts}/shut", FIRST_PORT["b"], 1, 1)
        assert shut.start().ended() == 1
        assert "needs all rights below /shut" in shut.log.read_text()
        try:
            assert shut.start("--zookeeper-login", str(login)).ready()["served"]
            assert shut.stop() == 0
        finally:
            shut.kill()


def test_the_client_follows_the_map_of_a_node_that_moves_its_ports(machine):
    a = machine("a", 1, 1).start()
    a.ready()

    async def use():
        async with zaichik.cluster(f"127.0.0.1:{a.first_port}", reconnect=120) as cluster:
            await cluster.create_topic("x", durable=True)
            await cluster.publish("x", b"1")
            a.stop()
            a.start("--first-port", str(a.first_port + 50))
            await anyio.to_thread.run_sync(a.ready)
        async with zaichik.cluster(f"127.0.0.1:{a.first_port + 50}", reconnect=120) as cluster:
            await cluster.publish("x", b"2")
            assert (await cluster.topic("x"))["next_offset"] == 2

    anyio.run(use)
