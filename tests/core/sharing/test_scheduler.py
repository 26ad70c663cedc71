"""Fair queueing: times and costs are made up, and a turn is a function that lets the time pass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zaichik.core.sharing.scheduler import (
    CONNECTION_US,
    DEAREST_US,
    SLICE_US,
    FairQueue,
    Flow,
    Scheduler,
)

# -- one queue -----------------------------------------------------------------------------------


def served(queue, cost_us, times):
    """Returns the flows with the next turns, if each is put back at once."""
    order = []
    for _ in range(times):
        flow = queue.take()
        queue.charge(flow, cost_us)
        queue.put(flow)
        order.append(flow)
    return order


def test_the_flow_that_has_used_least_is_next():
    queue = FairQueue()
    flows = [Flow(finish) for finish in (30, 10, 20)]
    for flow in flows:
        queue.put(flow)
    assert [queue.take() for _ in flows] == [flows[1], flows[2], flows[0]]


def test_flows_with_equal_use_are_served_first_come_first_served():
    queue = FairQueue()
    flows = [Flow(0) for _ in range(5)]
    for flow in flows:
        queue.put(flow)
    assert [queue.take() for _ in flows] == flows


def test_costlier_turns_are_fewer():
    """What counts is the time that they have had, and not how often."""
    queue = FairQueue()
    cheap, dear = Flow(0), Flow(0)
    queue.put(cheap)
    queue.put(dear)
    had = {cheap: 0, dear: 0}
    for _ in range(110):
        flow = queue.take()
        cost = 100 if flow is dear else 10
        had[flow] += cost
        queue.charge(flow, cost)
        queue.put(flow)
    assert abs(had[cheap] - had[dear]) <= 110


@pytest.mark.parametrize("finish", [0, 55], ids=["it was away for long", "it has just been away"])
def test_a_returning_flow_has_saved_no_credit(finish):
    queue = FairQueue()
    busy, returning = Flow(0), Flow(finish)
    queue.put(busy)
    served(queue, 10, 100)
    queue.put(returning)
    order = served(queue, 10, 20)
    assert 9 <= order.count(returning) <= 11


def test_a_short_absence_does_not_clear_past_use():
    queue = FairQueue()
    one, other = Flow(0), Flow(0)
    queue.put(one)
    queue.charge(queue.take(), 100)
    for flow in (one, other):  # `one` has been away
        queue.put(flow)
    assert served(queue, 10, 10) == [other] * 10


def test_a_charge_while_a_flow_waits_is_not_forgotten_in_its_turn():
    queue = FairQueue()
    one, other = Flow(0), Flow(0)
    queue.put(one)
    queue.charge(one, 100)
    queue.put(other)
    assert served(queue, 10, 11).count(one) == 1


def test_idle_time_clears_past_use_as_fast_as_it_passes_and_no_faster():
    queue = FairQueue()
    flow = Flow(0)
    queue.charge(flow, 1000)
    queue.idle(400)
    assert flow.finish - queue.virtual == 600
    queue.idle(1_000_000)
    assert flow.finish == queue.virtual  # nothing is given in advance
    queue.charge(flow, 50)
    assert flow.finish - queue.virtual == 50


# -- clients and their connections ---------------------------------------------------------------


class Machine:
    """A scheduler, its time, and an event loop that polls its sockets when the test says so.

    Attributes:
        now_us: the time; turns let it pass.
        log: the connections that had turns, in order.
    """

    def __init__(self):
        self.now_us = 0.0
        self.log = []
        self.scheduler = Scheduler(lambda: self.now_us)
        self.scheduler.on_waiting = self._wake
        self.is_awake = False

    def _wake(self):
        self.is_awake = True

    def look(self):
        """The event loop has polled all sockets."""
        assert self.is_awake or not self.scheduler.is_waited_for, "it would never be called"
        if not self.scheduler.is_waited_for or not self.scheduler.run():
            self.is_awake = False
            self.scheduler.note_idle()

    def until(self, condition):
        while not condition():
            self.look()

    def rest(self, elapsed_us=1e9):
        """All that waits is done, and then nothing happens for so long."""
        self.until(lambda: not self.scheduler.is_waited_for)
        self.look()
        self.now_us += elapsed_us

    def had(self, *connections):
        return sum(connection.had_us for connection in connections)


class Connection:
    """A connection that has turns of a certain cost, as many as it is asked to."""

    def __init__(self, machine, client, cost_us=100.0):
        self.machine = machine
        self.cost_us = cost_us
        self.had_us = 0.0
        self.left = 0
        self.brings_about = []  # connections that each of its turns wakes
        self.on_turn = lambda: None
        self.turns = machine.scheduler.join(client, self._take)

    def ask(self, turns=1, *, is_readable=False):
        self.left += turns
        if is_readable:
            self.machine.scheduler.ask(self.turns, is_readable=True)
        else:
            self.machine.scheduler.ask(self.turns)

    def _take(self):
        self.machine.now_us += self.cost_us
        self.machine.log.append(self)
        self.had_us += self.cost_us
        self.left -= 1
        self.on_turn()
        for other in self.brings_about:
            other.ask()
        return self.left > 0

    def leave(self):
        self.machine.scheduler.leave(self.turns)


@pytest.fixture
def machine():
    return Machine()


ALWAYS = 10**9


def test_a_lone_client_gets_its_turn_at_once(machine):
    one = Connection(machine, "a")
    machine.rest()
    one.ask()
    assert machine.log == [one]


def test_work_outside_of_turns_counts_as_much_as_work_in_turns(machine):
    outside, inside = Connection(machine, "a", cost_us=1.0), Connection(machine, "b", cost_us=100.0)
    outside.on_turn = lambda: machine.scheduler.charge(outside.turns, 99.0)
    outside.ask(ALWAYS)
    inside.ask(ALWAYS)
    machine.log.clear()
    machine.until(lambda: len(machine.log) >= 100)
    assert abs(machine.log.count(outside) - machine.log.count(inside)) <= 4


def test_asking_while_waiting_gives_no_second_turn(machine):
    one = Connection(machine, "a")
    one.left = 1
    with machine.scheduler.between_turns():
        for _ in range(3):
            machine.scheduler.ask(one.turns)
    machine.rest()
    assert machine.log == [one]


def test_asking_during_its_own_turn_takes_effect_at_its_end(machine):
    one = Connection(machine, "a")
    one.brings_about = [one]  # it says that there is more, too
    one.left = -5
    one.ask()
    machine.rest()
    assert machine.log == [one]


@pytest.mark.parametrize("connections", [30, 1000])
def test_many_connections_of_a_client_get_no_more_than_one(machine, connections):
    """LAG-5."""
    many, one = (
        [Connection(machine, "many") for _ in range(connections)],
        Connection(machine, "one"),
    )
    machine.rest()
    for connection in (*many, one):
        connection.ask(ALWAYS)
    start, already = machine.now_us, machine.had(*many)
    machine.until(lambda: machine.now_us > start + 100_000)
    assert abs(machine.had(*many) - already - one.had_us) <= 2 * one.cost_us


def test_the_connections_of_a_client_share_what_it_gets(machine):
    connections = [Connection(machine, "a", cost_us=cost) for cost in (10, 70, 200)]
    machine.rest()
    for connection in connections:
        connection.ask(ALWAYS)
    machine.until(lambda: machine.now_us > 1e9 + 100_000)
    had = [connection.had_us for connection in connections]
    assert max(had) - min(had) <= 400


def test_a_new_connection_does_not_escape_its_clients_past_use(machine):
    """Also if they had their turns at once, and never had to wait for them."""
    old = Connection(machine, "a")
    for _ in range(1000):
        machine.rest(1e6)
        old.ask()
    assert machine.log.count(old) == 1000
    new = Connection(machine, "a")
    machine.rest()
    machine.log.clear()
    for connection in (new, old):
        connection.ask(ALWAYS)
    machine.until(lambda: len(machine.log) >= 100)
    assert 45 <= machine.log.count(new) <= 55


def test_a_new_client_has_saved_no_credit(machine):
    busy, other = Connection(machine, "a"), Connection(machine, "b")
    busy.ask(ALWAYS)
    other.ask(ALWAYS)
    machine.until(lambda: machine.now_us > 1e6)
    before = machine.had(busy)
    new = Connection(machine, "c")
    new.ask(ALWAYS)
    start = machine.now_us
    machine.until(lambda: machine.now_us > start + 300_000)
    assert new.had_us <= machine.had(busy) - before
    assert new.had_us >= machine.had(busy) - before - CONNECTION_US - 2 * new.cost_us


def test_a_returning_client_has_saved_no_credit(machine):
    busy, returning = Connection(machine, "a"), Connection(machine, "b")
    returning.ask()
    busy.ask(ALWAYS)
    machine.until(lambda: machine.now_us > 1e6)
    before = machine.had(busy)
    already = returning.had_us
    returning.ask(ALWAYS)
    start = machine.now_us
    machine.until(lambda: machine.now_us > start + 100_000)
    assert abs((returning.had_us - already) - (machine.had(busy) - before)) <= 200


def test_reconnecting_does_not_clear_a_clients_past_use(machine):
    one, other = Connection(machine, "a", cost_us=4000), Connection(machine, "b")
    machine.rest()
    one.ask()
    one.leave()
    machine.scheduler.sweep()
    again = Connection(machine, "a")
    other.ask(ALWAYS)
    again.ask(ALWAYS)
    machine.until(lambda: again.had_us)
    assert other.had_us == pytest.approx(4000 + CONNECTION_US, abs=200)


def test_connecting_again_and_again_costs_a_client_its_turns(machine):
    """Also if another of its connections waits for one all the time."""
    flood, one = Connection(machine, "a"), Connection(machine, "b")
    machine.rest()
    flood.ask(ALWAYS)
    one.ask(ALWAYS)
    ahead = machine.had(one) - machine.had(flood)
    for _ in range(100):
        for _ in range(10):
            machine.look()
        Connection(machine, "a").leave()
    ahead = machine.had(one) - machine.had(flood) - ahead
    assert ahead == pytest.approx(100 * CONNECTION_US, abs=2 * CONNECTION_US)


def test_a_client_that_is_due_is_served_at_once_before_all_that_wait(machine):
    """LAG-5."""
    busy = [Connection(machine, f"busy {number}") for number in range(10)]
    quiet = Connection(machine, "quiet")
    machine.rest()
    for connection in busy:
        connection.ask(ALWAYS)
    machine.until(lambda: machine.now_us > 1e9 + 100_000)
    for _ in range(20):
        quiet.ask()
        assert machine.log[-1] is quiet
        machine.until(lambda: machine.log[-50:].count(quiet) == 0)


def test_a_client_that_is_due_is_not_charged_for_the_time_since_the_last_turn(machine):
    """LAG-5: in that time the event loop looked at its sockets."""
    busy, quiet = Connection(machine, "busy"), Connection(machine, "quiet")
    machine.rest()
    busy.ask(ALWAYS)
    machine.look()
    machine.now_us += 700
    before_us = quiet.turns.client.finish
    quiet.ask()
    assert machine.log[-1] is quiet
    assert quiet.turns.client.finish <= max(before_us, machine.scheduler._queue.virtual) + 100


def test_a_client_that_is_not_due_waits_for_those_that_have_used_less(machine):
    one, other = Connection(machine, "a", cost_us=1000), Connection(machine, "b")
    machine.rest()
    one.ask()  # it is due
    other.ask(ALWAYS)
    machine.log.clear()
    one.ask()
    assert machine.log == []
    machine.look()
    assert machine.log[0] is other


def test_a_lone_client_that_is_not_due_is_served_for_a_slice_until_sockets_are_polled(machine):
    """Another socket may hold the request of a client that has had less."""
    one = Connection(machine, "a")
    machine.rest()
    one.ask()
    one.ask()
    assert len(machine.log) == 2
    one.ask()
    assert len(machine.log) == 2
    machine.look()
    assert len(machine.log) == 3
    machine.look()
    one.ask()
    assert len(machine.log) == 4


def test_short_turns_fill_the_slice_of_a_lone_client(machine):
    one = Connection(machine, "a", cost_us=0.3 * SLICE_US)
    machine.rest()
    for _ in range(20):
        one.ask()
    assert len(machine.log) == 1 + 4  # the first one was due


@pytest.mark.parametrize("how", ["rest", "pause", "report"])
def test_after_each_poll_a_lone_client_has_a_slice_of_50_us(machine, how):
    """In turns of ten, five times: it has used more than its share, but nobody else waits."""
    used, one = Connection(machine, "a"), Connection(machine, "a", cost_us=10)
    machine.rest()
    used.ask(is_readable=True)
    used.ask(is_readable=True)
    if how == "rest":
        machine.scheduler.note_idle()
    elif how == "pause":
        machine.now_us += 31
    else:
        one.ask(is_readable=True)
        one.ask(is_readable=True)
        machine.until(lambda: not machine.scheduler.is_waited_for)
        one.ask(is_readable=True)
    before = len(machine.log) - (how == "report")
    for _ in range(10):
        one.ask()
    assert len(machine.log) - before == 5


def test_a_socket_reported_again_shows_that_sockets_were_polled(machine):
    one = Connection(machine, "a")
    machine.rest()
    for times in range(1, 100):
        one.ask(is_readable=True)
        assert len(machine.log) == times


def test_sockets_reported_together_do_not_show_another_poll(machine):
    many = [Connection(machine, "a") for _ in range(50)]
    machine.rest()
    for connection in many:
        connection.ask(is_readable=True)
    assert len(machine.log) == 2  # one that was due, and one that hurried
    machine.until(lambda: len(machine.log) == 50)


@pytest.mark.parametrize(("pause_us", "at_once"), [(10, 2), (100, 10)])
def test_a_pause_shows_that_sockets_were_polled(machine, pause_us, at_once):
    """Unless it is so short that it passes between the callbacks of two sockets."""
    connections = [Connection(machine, "a") for _ in range(10)]
    machine.rest()
    for connection in connections:
        connection.ask(is_readable=True)
        machine.now_us += pause_us
    assert len(machine.log) == at_once


def test_after_a_rest_no_client_waits_for_a_poll(machine):
    one = Connection(machine, "a", cost_us=10)
    for times in range(1, 100):
        machine.rest(elapsed_us=1)
        one.ask()
        assert len(machine.log) == times


def test_after_a_rest_a_lone_client_has_one_slice(machine):
    one = Connection(machine, "a", cost_us=SLICE_US)
    machine.rest()
    one.ask()  # it is due, and not for free
    machine.look()
    one.ask()
    assert len(machine.log) == 2
    one.ask()
    assert len(machine.log) == 2


def test_turns_that_a_turn_asks_for_follow_it_at_once(machine):
    writer, readers = (
        Connection(machine, "w"),
        [Connection(machine, f"r{number}", cost_us=10) for number in range(5)],
    )
    writer.brings_about = readers
    machine.rest()
    writer.ask()
    assert machine.log == [writer, *readers]


def test_turns_that_a_turn_asks_for_its_own_client_follow_those_of_others(machine):
    """What the turn has cost is counted before its client waits for another."""
    writer, own, other = (
        Connection(machine, "w"),
        Connection(machine, "w"),
        Connection(machine, "r"),
    )
    writer.brings_about = [own, other]
    machine.rest()
    writer.ask()
    machine.until(lambda: len(machine.log) == 3)
    assert machine.log == [writer, other, own]


def test_clients_that_talk_to_themselves_pay_for_all_their_turns(machine):
    """A turn of one connection wakes the other, so the client waits already when the turn is paid
    for.
    """
    ping, pong, other = Connection(machine, "a"), Connection(machine, "a"), Connection(machine, "b")
    ping.brings_about, pong.brings_about = [pong], [ping]
    machine.rest()
    other.ask(ALWAYS)
    ping.ask()
    start, already = machine.now_us, machine.had(other)
    machine.until(lambda: machine.now_us > start + 100_000)
    assert machine.had(ping, pong) <= machine.had(other) - already + 200


def test_a_slice_ends(machine):
    """Then the event loop polls its sockets."""
    busy = [Connection(machine, "a", cost_us=70), Connection(machine, "b", cost_us=70)]
    machine.rest()
    for connection in busy:
        connection.ask(ALWAYS)
    for _ in range(10):
        before_us = machine.now_us
        assert machine.scheduler.run()
        assert SLICE_US <= machine.now_us - before_us < SLICE_US + 70


def test_an_ask_takes_at_most_one_slice_for_the_turns_it_causes(machine):
    writer, readers = (
        Connection(machine, "w"),
        [Connection(machine, f"r{number}") for number in range(500)],
    )
    writer.brings_about = readers
    machine.rest()
    before_us = machine.now_us
    writer.ask()
    assert machine.now_us - before_us <= writer.cost_us + SLICE_US + 100
    machine.rest()
    assert len(machine.log) == 501


def test_a_turn_in_which_the_process_was_stalled_is_not_charged_in_full(machine):
    """But with some milliseconds, as the longest turn might have taken."""
    assert 1_000 < DEAREST_US < 20_000
    one, other = Connection(machine, "a", cost_us=60_000_000.0), Connection(machine, "b")
    machine.rest()
    one.ask()
    one.cost_us = 100
    other.ask(ALWAYS)
    one.ask(ALWAYS)
    machine.until(lambda: machine.log.count(one) == 2)
    assert DEAREST_US <= other.had_us <= DEAREST_US + 1000


def test_a_connection_that_leaves_while_it_waits_has_no_turn(machine):
    busy, one = Connection(machine, "a"), Connection(machine, "b")
    machine.rest()
    busy.ask(ALWAYS)
    one.ask(ALWAYS)
    one.leave()
    machine.log.clear()
    for _ in range(10):
        machine.look()
    assert set(machine.log) == {busy}


def test_all_may_leave_while_they_wait(machine):
    connections = [Connection(machine, str(number % 3)) for number in range(10)]
    for connection in connections:
        connection.ask(ALWAYS)
        connection.leave()
    machine.log.clear()
    machine.rest()
    assert machine.log == []
    assert not machine.is_awake


def test_a_connection_that_asks_after_it_has_left_has_no_turn(machine):
    one = Connection(machine, "a")
    one.leave()
    one.ask(3)
    machine.rest()
    assert machine.log == []


def test_a_sweep_forgets_clients_that_left_and_have_no_recent_use(machine):
    scheduler = machine.scheduler
    gone, there = Connection(machine, "gone", cost_us=1000), Connection(machine, "there")
    machine.rest()
    gone.ask()
    gone.leave()
    scheduler.sweep()
    assert set(scheduler._clients) == {"gone", "there"}
    machine.now_us += 999
    scheduler.sweep()
    assert "gone" in scheduler._clients
    machine.now_us += 1
    scheduler.sweep()  # though nobody has asked for anything since
    assert set(scheduler._clients) == {"there"}
    there.ask()
    assert machine.log[-1] is there


def test_a_sweep_keeps_a_client_that_waits(machine):
    busy, one = Connection(machine, "busy"), Connection(machine, "one")
    machine.rest()
    busy.ask(ALWAYS)
    one.ask(2)
    one.leave()
    machine.scheduler.sweep()
    assert "one" in machine.scheduler._clients
    machine.until(lambda: len(machine.log) > 20)
    machine.scheduler.sweep()
    assert "one" not in machine.scheduler._clients


def test_no_turn_is_given_between_turns_and_all_are_given_afterwards(machine):
    connections = [Connection(machine, str(number)) for number in range(3)]
    machine.rest()
    with machine.scheduler.between_turns():
        for connection in connections:
            connection.ask()
        assert machine.log == []
    assert machine.is_awake
    machine.rest()
    assert machine.log == connections


def test_a_slice_may_follow_at_once_and_the_rest_after_a_poll(machine):
    """As for what a disk has answered."""
    connections = [Connection(machine, str(number), cost_us=30.0) for number in range(3)]
    machine.rest()
    with machine.scheduler.between_turns(gives_slice=True):
        for connection in connections:
            connection.ask()
        assert machine.log == []
    assert machine.log == connections[:2]
    assert machine.is_awake
    machine.rest()
    assert machine.log == connections


def test_a_slice_that_all_fit_into_needs_no_poll(machine):
    one = Connection(machine, "a", cost_us=30.0)
    machine.rest()
    with machine.scheduler.between_turns(gives_slice=True):
        one.ask()
    assert machine.log == [one]
    assert not machine.is_awake


def test_there_is_one_slice_until_the_sockets_are_polled(machine):
    """LAG-5: a socket that was not polled yet may belong to a client that has used less."""
    one, other, late = (Connection(machine, name, cost_us=SLICE_US) for name in "abc")
    machine.rest()
    with machine.scheduler.between_turns(gives_slice=True):
        one.ask()
    with machine.scheduler.between_turns(gives_slice=True):
        other.ask()
    assert machine.log == [one]
    machine.rest()
    with machine.scheduler.between_turns(gives_slice=True):
        late.ask()
    assert machine.log == [one, other, late]


def test_nobody_who_waits_is_overtaken_by_such_a_slice(machine):
    """LAG-5."""
    busy, other = Connection(machine, "busy"), Connection(machine, "other")
    machine.rest()
    with machine.scheduler.between_turns():
        busy.ask()
    with machine.scheduler.between_turns(gives_slice=True):
        other.ask()
    assert machine.log == []
    machine.rest()
    assert machine.log == [busy, other]


def test_what_a_client_used_before_a_pause_is_forgotten_also_if_it_asks_between_turns(machine):
    """LAG-5; as connections do whose answers come from a disk."""
    busy, others = Connection(machine, "busy"), [Connection(machine, "others") for _ in range(2)]
    busy.ask(50)
    machine.rest()
    with machine.scheduler.between_turns():
        for connection in (busy, *others):
            connection.ask()
    machine.log.clear()
    machine.rest()
    assert machine.log == [busy, *others]


def test_a_client_that_waits_gets_no_turn_before_its_own(machine):
    """LAG-5: or else two of its connections would precede others that have used as little."""
    one, another, other = (
        Connection(machine, "a"),
        Connection(machine, "a"),
        Connection(machine, "b"),
    )
    machine.rest()
    with machine.scheduler.between_turns():
        one.ask()
        other.ask()
    another.ask()
    machine.rest()
    assert machine.log == [one, other, another]


# -- whatever happens ----------------------------------------------------------------------------

COSTS = [1.0, 20.0, 150.0, 300.0]
LONGEST = max(COSTS)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 7), st.sampled_from([1, 1, 2, 10, 100])),
        st.tuples(st.just("look"), st.integers(1, 5), st.none()),
        st.tuples(st.just("wait"), st.sampled_from([1, 100, 10_000]), st.none()),
    ),
    max_size=60,
)


class Shares:
    """How much clients have had while they were waiting together."""

    def __init__(self, machine, connections):
        self.machine = machine
        self.clients = {}
        for client, connection in connections:
            self.clients.setdefault(client, []).append(connection)
        self.least = {}  # of the difference between two that wait, since both do
        self.most = {}

    def look(self):
        waiting = [
            client for client, own in self.clients.items() if any(one.left > 0 for one in own)
        ]
        had = {client: self.machine.had(*own) for client, own in self.clients.items()}
        for pair in [(one, other) for one in self.clients for other in self.clients if one < other]:
            if not set(pair) <= set(waiting):
                self.least.pop(pair, None)
                self.most.pop(pair, None)
                continue
            ahead = had[pair[0]] - had[pair[1]]
            self.least[pair] = min(self.least.get(pair, ahead), ahead)
            self.most[pair] = max(self.most.get(pair, ahead), ahead)
            assert self.most[pair] - self.least[pair] <= 2 * LONGEST


@given(
    clients=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(COSTS)), min_size=8, max_size=8
    ),
    wakes=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=2),
    steps=STEPS,
)
def test_neither_of_two_waiting_clients_gets_ahead_by_more_than_two_longest_turns(
    clients, wakes, steps
):
    """LAG-5: whatever they have used, however many their connections, whichever wakes which."""
    machine = Machine()
    connections = [Connection(machine, client, cost) for client, cost in clients]
    machine.rest()
    for waker, woken in wakes:
        if waker < woken:  # or it would never end
            connections[waker].brings_about.append(connections[woken])
    shares = Shares(machine, list(zip([client for client, _ in clients], connections, strict=True)))
    for connection in connections:  # looked at after every turn
        connection.turns.take = _and_then(connection.turns.take, shares.look)
    for kind, amount, turns in steps:
        if kind == "ask":
            connections[amount].ask(turns)
        elif kind == "wait":
            machine.rest(amount)
        else:
            for _ in range(amount):
                machine.look()
        shares.look()
    machine.rest()
    assert all(connection.left == 0 for connection in connections), "all that was asked for was had"


def _and_then(take, look):
    def taken():
        is_more = take()
        look()
        return is_more

    return taken


@given(costs=st.lists(st.sampled_from(COSTS), min_size=1, max_size=10), steps=STEPS)
def test_a_client_with_an_occasional_request_does_not_wait(costs, steps):
    """LAG-5: it is due again once all that wait have had as much as it has, and a turn more."""
    machine = Machine()
    others = [Connection(machine, f"{number}", cost) for number, cost in enumerate(costs)]
    quiet = Connection(machine, "quiet", 150.0)
    machine.rest()
    for other in others:
        other.ask(ALWAYS)
    quiet.ask()
    for _, amount, _ in steps:
        since = [other.had_us for other in others]
        machine.until(
            lambda since=since: all(
                other.had_us - before >= quiet.cost_us + LONGEST
                for other, before in zip(others, since, strict=True)
            )
        )
        for _ in range(amount % 3):
            machine.look()
        quiet.ask()
        assert machine.log[-1] is quiet
