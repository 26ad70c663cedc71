"""What a node decides, step by step: what the simulated worlds meet too rarely, or cannot see."""

import anyio
import pytest

from zaichik.apps.cluster.coordinator import Coordinator, Known, Machine, NameTaken, Overdue, Retry
from zaichik.apps.cluster.engine import Away, Changed, Denied, Record, Stale, State, StateChanged
from zaichik.apps.cluster.records import (
    FEATURES,
    Features,
    Incompatible,
    Placement,
    Presence,
    machine_path,
    shard_path,
)

CONNECTED = StateChanged(State.CONNECTED)


class Engine:
    """The six calls on a dictionary."""

    def __init__(self):
        self.records = {}
        self.watched = []
        self.refuses = None
        self.fails = []  # exceptions of the next calls

    state = State.CONNECTED

    def put(self, path, what, version=0):
        self.records[path] = Record(what if isinstance(what, bytes) else what.encoded(), version)

    def _call(self, path):
        if self.fails:
            raise self.fails.pop(0)
        if self.refuses:
            raise Denied(self.refuses)

    async def create(self, path, data, *, ephemeral=False):
        self._call(path)
        if path in self.records:
            return False
        self.records[path] = Record(data, 0)
        return True

    async def get(self, path):
        self._call(path)
        return self.records.get(path)

    async def set(self, path, data, version):
        self._call(path)
        record = self.records.get(path)
        if record is None or record.version != version:
            raise Stale(path)
        self.records[path] = Record(data, version + 1)
        return version + 1

    async def children(self, path):
        return []

    async def watch(self, path):
        self._call(path)
        self.watched.append(path)

    def placement(self, shard):
        return Placement.parse(self.records[shard_path(shard)].data)


class Node:
    def __init__(self, engine, name="a", folder="A", shards=2, most=99, known=None, **options):
        self.served = None
        self.maps = []
        self.saved = []
        self.engine = engine
        self.coordinator = Coordinator(
            Machine(
                name,
                Presence(folder, f"process of {folder}"),
                lambda shard: f"{name}:{1000 + shard}",
                most,
                shards,
                "the cluster",
            ),
            engine,
            self,
            self.saved.append,
            lambda: 7,
            known,
            **options,
        )

    def serve(self, shards):
        self.served = set(shards)

    def publish(self, cluster_map):
        self.maps.append(cluster_map)

    def handle(self, *events):
        for event in events:
            anyio.run(self.coordinator.handle, event)


def at(machine, generation=1, folder=None, address="elsewhere:1"):
    return Placement(machine, folder or machine.upper(), generation, address, 5)


def test_the_first_node_makes_the_cluster_and_takes_all_shards():
    node = Node(Engine())
    node.handle(CONNECTED)
    assert node.served == {0, 1}
    (cluster_map,) = node.maps
    assert [(s.machine, s.address, s.generation, s.since_us) for s in cluster_map.shards] == [
        ("a", "a:1000", 1, 7),
        ("a", "a:1001", 1, 7),
    ]
    assert cluster_map.features == 0
    assert node.saved[-1].placements.keys() == {0, 1}


def test_a_machine_takes_no_more_than_it_may_and_never_what_is_anothers():
    engine = Engine()
    engine.put(shard_path(0), at("b"))
    node = Node(engine, shards=4, most=2)
    node.handle(CONNECTED)
    assert node.served == {1, 2}
    assert [shard.machine for shard in node.maps[-1].shards] == ["b", "a", "a", None]


def test_shards_that_are_here_count_before_any_is_claimed():
    engine = Engine()
    engine.put(shard_path(3), at("a", address="a:1003"))
    node = Node(engine, shards=4, most=1)
    node.handle(CONNECTED)
    assert node.served == {3}


def test_a_machine_of_the_same_name_with_another_folder_serves_nothing_of_the_first():
    """On an empty disk, its topics would be there, and hold nothing."""
    engine = Engine()
    engine.put(shard_path(0), at("a", folder="lost"))
    node = Node(engine)
    node.handle(CONNECTED)
    assert node.served == {1}


def test_the_number_of_shards_must_be_said_once_and_be_the_same_for_all():
    with pytest.raises(Incompatible, match="--shards N"):
        Node(Engine(), shards=None).handle(CONNECTED)
    engine = Engine()
    engine.put(FEATURES, Features(3, "x"))
    with pytest.raises(Incompatible, match="write --shards 3"):
        Node(engine, shards=2).handle(CONNECTED)
    node = Node(engine, shards=None)
    node.handle(CONNECTED)
    assert node.served == {0, 1, 2}
    with pytest.raises(Incompatible, match="write --shards 3"):
        Node(engine, shards=4, known=node.saved[-1]).handle(CONNECTED)
    engine.put(FEATURES, Features(4, "x"), version=1)
    with pytest.raises(Incompatible, match="another --data"):
        node.handle(Changed(FEATURES))


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (b'{"format":2,"shards":2,"cluster":"x"}', "format 2"),
        (b'{"format":1,"hash":"crc","shards":2,"cluster":"x"}', "'crc'"),
        (b'{"format":1,"hash":"blake2b-8","shards":0,"cluster":"x"}', "not a cluster's"),
        (b"rubbish", "choose another path"),
        (b'{"hash":"blake2b-8"}', "not a cluster's"),
    ],
)
def test_features_that_it_cannot_have_end_a_node(record, sentence):
    engine = Engine()
    engine.put(FEATURES, record)
    with pytest.raises(Incompatible, match=sentence):
        Node(engine).handle(CONNECTED)


def test_a_running_node_ends_when_the_cluster_agrees_on_what_it_cannot_do():
    node = Node(Engine())
    node.handle(CONNECTED)
    node.engine.put(FEATURES, b'{"format":2}', version=1)
    with pytest.raises(Incompatible):
        node.handle(Changed(FEATURES))


def test_names_that_a_later_version_adds_raise_the_epoch_and_an_older_one_is_ignored():
    node = Node(Engine())
    node.handle(CONNECTED)
    first = node.engine.records[FEATURES]
    node.engine.put(FEATURES, first.data.replace(b"{", b'{"more":1,', 1), version=4)
    node.handle(Changed(FEATURES))
    assert node.maps[-1].features == 4
    node.engine.put(FEATURES, first.data, version=3)
    node.handle(Changed(FEATURES))
    assert node.maps[-1].features == 4


def test_a_folder_belongs_to_one_cluster():
    first = Node(Engine())
    first.handle(CONNECTED)
    engine = Engine()
    engine.put(FEATURES, Features(2, "another"))
    with pytest.raises(Incompatible, match="another --data"):
        Node(engine, known=first.saved[-1]).handle(CONNECTED)


# -- who is present (CL-1c) ------------------------------------------------------------------------


def test_a_second_machine_of_one_name_ends():
    engine = Engine()
    engine.put(machine_path("a"), Presence("B", "somebody"))
    with pytest.raises(NameTaken, match="--machine"):
        Node(engine).handle(CONNECTED)


def test_its_own_former_session_is_waited_for():
    engine = Engine()
    engine.put(machine_path("a"), Presence("A", "before"))
    node = Node(engine)
    node.handle(CONNECTED)
    assert (node.coordinator.is_waiting, node.served) == (True, None)
    del engine.records[machine_path("a")]
    node.handle(Changed(machine_path("a")))
    assert (node.coordinator.is_waiting, node.served) == (False, {0, 1})


def test_a_copy_of_this_folder_that_is_in_use_ends_the_node_when_the_wait_is_over():
    engine = Engine()
    engine.put(machine_path("a"), Presence("A", "a copy"))
    node = Node(engine)
    node.handle(CONNECTED)
    with pytest.raises(NameTaken):
        node.handle(Overdue())


def test_a_service_that_was_away_gives_the_former_session_its_time_again():
    """It expires nobody while it does not run."""
    engine = Engine()
    engine.put(machine_path("a"), Presence("A", "before"))
    node = Node(engine)
    node.handle(CONNECTED)
    engine.fails = [Away()]
    node.handle(Overdue(), StateChanged(State.AWAY), CONNECTED)
    assert node.coordinator.is_waiting


def test_a_presence_that_was_deleted_is_made_again():
    node = Node(Engine())
    node.handle(CONNECTED)
    del node.engine.records[machine_path("a")]
    node.handle(Changed(machine_path("a")))
    assert machine_path("a") in node.engine.records


def test_a_presence_that_cannot_be_read_is_anothers():
    engine = Engine()
    engine.put(machine_path("a"), b"rubbish")
    with pytest.raises(NameTaken):
        Node(engine).handle(CONNECTED)


# -- shards ----------------------------------------------------------------------------------------


def test_a_shard_that_is_found_elsewhere_is_stopped(caplog):
    """CL-6."""
    node = Node(Engine())
    node.handle(CONNECTED)
    node.engine.put(shard_path(1), at("b", generation=3), version=1)
    node.handle(Changed(shard_path(1)))
    assert node.served == {0}
    assert node.maps[-1].shards[1].machine == "b"
    assert "shard 1 is at machine b now" in caplog.text


def test_nothing_is_served_before_everything_was_read_once():
    """CL-7: what was known last may be elsewhere by now."""
    first = Node(Engine())
    first.handle(CONNECTED)
    node = Node(first.engine, known=first.saved[-1])
    node.coordinator.begin()
    first.engine.fails = [Away()]
    node.handle(CONNECTED)
    assert (node.served, node.coordinator.is_behind) == (None, True)


def test_with_serve_alone_what_was_known_last_is_served_until_something_else_is_read():
    first = Node(Engine())
    first.handle(CONNECTED)
    node = Node(first.engine, known=first.saved[-1], serves_alone=True)
    node.coordinator.begin()
    assert node.served == {0, 1}
    first.engine.put(shard_path(0), at("b", generation=9))
    del first.engine.records[machine_path("a")]
    node.handle(CONNECTED)
    assert node.served == {1}


def test_an_address_that_could_not_be_written_is_published_and_written_later():
    """CL-2."""

    class Deaf(Engine):
        is_deaf = True

        async def set(self, path, data, version):
            if self.is_deaf:
                raise Away
            return await super().set(path, data, version)

    known = Known(Features(1, "the cluster"), 0, {0: at("a", generation=4, address="a:1")})
    engine = Deaf()
    engine.put(FEATURES, known.features)
    engine.put(shard_path(0), known.placements[0])
    node = Node(engine, shards=None, known=known, serves_alone=True)
    node.handle(CONNECTED)
    told = node.maps[-1].shards[0]
    assert (told.address, told.generation, node.served) == ("a:1000", 5, {0})
    engine.is_deaf = False
    node.handle(Retry())
    written = engine.placement(0)
    assert (written.address, written.generation) == ("a:1000", 5)


def test_a_record_with_a_smaller_generation_is_an_old_answer():
    node = Node(Engine())
    node.handle(CONNECTED)
    node.engine.put(shard_path(1), at("b", generation=5), version=1)
    node.handle(Changed(shard_path(1)))
    node.engine.put(shard_path(1), at("c", generation=4), version=0)
    node.handle(Changed(shard_path(1)))
    assert node.maps[-1].shards[1].machine == "b"


def test_a_record_that_is_gone_is_written_again_by_the_machine_that_has_the_shard_alone():
    """The service was made anew, on an empty disk."""
    engine = Engine()
    engine.put(shard_path(0), at("b", generation=6))
    node = Node(engine)
    node.handle(CONNECTED)
    engine.records.clear()
    node.handle(StateChanged(State.AWAY), CONNECTED)
    assert engine.placement(1).generation == 2
    assert shard_path(0) not in engine.records
    assert node.served == {1}
    assert node.maps[-1].shards[0].machine == "b"


def test_a_record_that_cannot_be_read_changes_nothing(caplog):
    node = Node(Engine())
    node.handle(CONNECTED)
    for record in (
        b"\xff",
        b'{"format":9}',
        b'{"format":1,"machine":1}',
        b"[]",
        # Clients would refuse the whole map for it.
        Placement("b", "B", 9, "no address", 1).encoded(),
        # Half of a character: nobody could write the map, or keep what is known.
        Placement("HALF", "B", 9, "b:1", 1).encoded().replace(b"HALF", b"\\ud800"),
    ):
        node.engine.put(shard_path(1), record, version=1)
        node.handle(Changed(shard_path(1)))
    assert node.served == {0, 1}
    assert caplog.text.count("cannot be read") == 6
    assert node.maps[-1].encoded()


def test_paths_that_are_no_shards_are_ignored():
    node = Node(Engine())
    node.handle(CONNECTED)
    before = len(node.engine.watched)
    node.handle(Changed("/shards/x"), Changed("/shards/9"), Changed("/machines/b"))
    assert len(node.engine.watched) == before


# -- calls that fail -------------------------------------------------------------------------------


def test_what_was_not_answered_is_asked_again():
    engine = Engine()
    engine.fails = [Away()]
    node = Node(engine)
    node.handle(CONNECTED)
    assert node.coordinator.is_behind
    node.handle(Retry())
    assert (node.coordinator.is_behind, node.served) == (False, {0, 1})


def test_what_is_refused_ends_a_start_and_no_node_that_serves(caplog):
    engine = Engine()
    engine.refuses = "no rights"
    with pytest.raises(Denied):
        Node(engine).handle(CONNECTED)
    engine.refuses = None
    node = Node(engine)
    node.handle(CONNECTED)
    engine.refuses = "no rights"
    node.handle(StateChanged(State.AWAY), CONNECTED)
    assert (node.served, node.coordinator.is_behind) == ({0, 1}, True)
    assert "no rights" in caplog.text


def test_a_record_that_never_comes_to_rest_is_tried_later():
    class Restless(Engine):
        async def set(self, path, data, version):
            raise Stale(path)

    engine = Restless()
    engine.put(shard_path(0), at("a"))
    node = Node(engine)
    node.handle(CONNECTED)
    assert node.coordinator.is_behind
