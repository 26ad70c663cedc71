"""What a process inherits from the one that forked it; see also `blocking/test_exiting.py`."""

import os

import anyio
import anyio.lowlevel
import pytest
from brokers import real_client

from zaichik.client import forking
from zaichik.client.forking import ADVICE, unwatch, watch


def test_only_the_child_is_told_and_only_of_what_is_watched(monkeypatch):
    monkeypatch.setattr(forking, "_watched", {})
    told = []
    first, second = lambda: told.append("first"), lambda: told.append("second")
    watch(first)
    watch(second)
    unwatch(first)
    unwatch(first)
    child = os.fork()
    if not child:
        os._exit(len(told) + 10 * (told == ["second"]))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 11
    assert told == []
    forking._call_all()
    forking._call_all()
    assert told == ["second"]


@pytest.mark.anyio
async def test_every_call_of_an_inherited_client_is_an_error_and_its_blocks_may_be_left():
    async with real_client() as client, client.subscribe("t", start=0) as subscription:
        await client.publish("t", b"a")
        while not subscription._inbox.events:
            await anyio.lowlevel.checkpoint()
        client._connection.inherited()
        for call in (client.ping, subscription.__anext__, lambda: client.publish("t", b"b")):
            with pytest.raises(RuntimeError, match=ADVICE):
                await call()
        with pytest.raises(RuntimeError, match=ADVICE):
            async with client.producer("t") as producer:
                await producer.send(b"c")
