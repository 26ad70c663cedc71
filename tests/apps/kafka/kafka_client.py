"""A gateway, and a client that sends Kafka's requests one by one."""

import io
import struct
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from ssl import SSLContext
from typing import Any

import anyio
import trustme
from brokers import GUARD, START_US
from kafka.protocol.api_header import RequestHeader, ResponseClassRegistry
from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

import zaichik
from zaichik.apps.kafka.gateway import Gateway
from zaichik.net.background import BackgroundTasks
from zaichik.net.socket_stream import SocketStream
from zaichik.net.tls_settings import ClientTls, client_tls, server_tls

TOKENS = {"ana": f"zk_{'a' * 43}", "bob": f"zk_{'b' * 43}", "gate": f"zk_{'g' * 43}"}
RULES = """\
user gate
allow all kafka/*
allow describe $broker
user ana
allow all mine/*
user bob
allow all mine/*
"""


class Kafka:
    """One connection to a gateway."""

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream
        self._number = 0
        self._data = b""

    async def send(self, request: Any, version: int) -> None:
        """Send a request."""
        self._number += 1
        body = request.encode(version=version)
        head = struct.pack(">hhih", request.API_KEY, version, self._number, 4) + b"test"
        await self.send_frame(head + body)

    async def send_frame(self, frame: bytes) -> None:
        """Send bytes as a request."""
        await self.stream.send(struct.pack(">i", len(frame)) + frame)

    async def receive_frame(self) -> bytes:
        """The next response, without its size."""
        while len(self._data) < 4 or len(self._data) < 4 + struct.unpack(">i", self._data[:4])[0]:
            self._data += await self.stream.receive()
        end = 4 + struct.unpack(">i", self._data[:4])[0]
        frame, self._data = self._data[4:end], self._data[end:]
        return frame

    async def receive(self, request: Any, version: int) -> Any:
        """The response to a request of this type."""
        frame = await self.receive_frame()
        return decoded_response(request.API_KEY, version, frame)

    async def ask(self, request: Any, version: int) -> Any:
        """Send a request; its response."""
        await self.send(request, version)
        return await self.receive(request, version)

    async def ended(self) -> bool:
        """True, when the gateway has closed the connection in an orderly way."""
        try:
            while True:
                await self.stream.receive()
        except anyio.EndOfStream:
            return True
        except anyio.BrokenResourceError:
            return False

    # -- what many tests ask for -----------------------------------------------------------------

    async def metadata(self, *names: str, create: bool = True) -> dict[str, int]:
        """The error code of each topic."""
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(
            topics=topics or None,
            allow_auto_topic_creation=create,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        response = await self.ask(request, 8)
        return {topic.name: topic.error_code for topic in response.topics}

    async def produce(self, topic: str, records: bytes, *, acks: int = -1, version: int = 8) -> Any:
        """The response for its partition."""
        request = produce_request(topic, records, acks=acks)
        if acks == 0:
            await self.send(request, version)
            return None
        response = await self.ask(request, version)
        return response.responses[0].partition_responses[0]

    async def producer_id(self) -> int:
        """The id of an idempotent producer."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        response = await self.ask(request, 1)
        assert (response.error_code, response.producer_epoch) == (0, 0)
        return response.producer_id

    async def fetch(self, topic: str, offset: int, *, wait_ms: int = 0, **limits: int) -> Any:
        """The response for its partition."""
        request = fetch_request({topic: offset}, wait_ms=wait_ms, **limits)
        response = await self.ask(request, 11)
        return response.responses[0].partitions[0]

    async def offset(self, topic: str, timestamp: int) -> tuple[int, int, int]:
        """The error code, offset and time for a timestamp."""
        partition = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=0, current_leader_epoch=-1, timestamp=timestamp
        )
        wanted = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[partition])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[wanted])
        response = await self.ask(request, 5)
        answer = response.topics[0].partitions[0]
        return answer.error_code, answer.offset, answer.timestamp


def produce_request(topic: str, records: bytes, *, acks: int = -1, partition: int = 0) -> Any:
    """A Produce request for one topic."""
    data = ProduceRequest.TopicProduceData
    part = data.PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=30_000,
        topic_data=[data(name=topic, partition_data=[part])],
    )


def fetch_request(
    offsets: dict[str, int],
    *,
    wait_ms: int = 0,
    max_bytes: int = 2**20,
    partition_max_bytes: int = 2**20,
) -> Any:
    """A Fetch request for several topics."""
    topics = []
    for topic, offset in offsets.items():
        partition = FetchRequest.FetchTopic.FetchPartition(
            partition=0,
            current_leader_epoch=-1,
            fetch_offset=offset,
            log_start_offset=-1,
            partition_max_bytes=partition_max_bytes,
        )
        topics.append(FetchRequest.FetchTopic(topic=topic, partitions=[partition]))
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=topics,
        forgotten_topics_data=[],
        rack_id="",
    )


async def commit(
    kafka: Kafka, offset: int, *, group="g", topic="a", joined=None, note="", partition=0
) -> int:
    row = OffsetCommitRequest.OffsetCommitRequestTopic
    part = row.OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=-1,
        committed_metadata=note,
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=joined.generation_id if joined else -1,
        member_id=joined.member_id if joined else "",
        group_instance_id=None,
        topics=[row(name=topic, partitions=[part])],
    )
    response = await kafka.ask(request, 7)
    return response.topics[0].partitions[0].error_code


async def committed(kafka: Kafka, group="g", topic: str | None = "a") -> dict:
    topics = None
    if topic is not None:
        topics = [OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    response = await kafka.ask(OffsetFetchRequest(group_id=group, topics=topics), 5)
    return {
        row.name: (row.partitions[0].committed_offset, row.partitions[0].metadata)
        for row in response.topics
    }


def decoded_response(key: int, version: int, frame: bytes) -> Any:
    """The response in a frame."""
    header = RequestHeader(request_api_key=key, request_api_version=version)
    response = ResponseClassRegistry.get_response_class(header)
    return response.decode(io.BytesIO(frame[4:]), version=version)


class Running:
    """A gateway that runs, its broker, and a client of our own beside it.

    Attributes:
        broker, client, gateway: see above; the client is the gateway's own.
    """

    def __init__(self, broker: zaichik.Server, client: zaichik.Client, gateway: Gateway) -> None:
        self.broker, self.client, self.gateway = broker, client, gateway

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Kafka]:
        """One of Kafka's clients."""
        async with await SocketStream.connect("127.0.0.1", self.gateway.port) as stream:
            yield Kafka(stream)

    async def payloads(self, topic: str) -> list[tuple[bytes | None, bytes]]:
        """What the topic has, as key and payload."""
        state = await self.client.topic(topic)
        if state is None or state["next_offset"] == state["head"]:
            return []
        async with self.client.subscribe(topic, until=state["next_offset"]) as subscription:
            return [(message.key, message.payload) async for message in subscription]


@asynccontextmanager
async def gateway(
    *,
    data: Any = None,
    with_users: bool = False,
    broker: Any = None,
    tls: SSLContext | None = None,
    acked_by: str | None = None,
    **settings,
) -> AsyncIterator[Running]:
    """One that runs, with a broker of its own unless there is one; settings are the broker's."""
    options: dict[str, Any] = {
        "clock": zaichik.ManualClock(START_US),
        "settings": zaichik.BrokerSettings(**settings),
        "data": data,
    }
    if with_users:
        options |= {"users": TOKENS, "rules": RULES}
    with anyio.fail_after(GUARD):
        async with AsyncExitStack() as stack:
            if broker is None:
                broker = await stack.enter_async_context(zaichik.running_broker(**options))
            address, login = f"127.0.0.1:{broker.port}", None
            if with_users:
                login = zaichik.endpoint(address)
                address = f"zaichik://{TOKENS['gate']}@{address}"
            client = await stack.enter_async_context(zaichik.connect(zaichik.endpoint(address)))
            tasks = await stack.enter_async_context(BackgroundTasks())
            found = await Gateway.listening(
                client, 0, login=login, tls=tls, reconnect_s=0, acked_by=acked_by
            )
            tasks.group.start_soon(found.run)
            yield Running(broker, client, found)


@cache
def tls_of_both() -> tuple[SSLContext, ClientTls, bytes]:
    """What the gateway shows, what its clients insist on, and the CA's certificate."""
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    issued = authority.issue_cert("localhost", "127.0.0.1", key_type=trustme.KeyType.ECDSA)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        authority.cert_pem.write_to_path(folder / "ca")
        issued.private_key_and_cert_chain_pem.write_to_path(folder / "both")
        shown = server_tls(folder / "both", folder / "both").context
        return shown, client_tls(ca=folder / "ca"), authority.cert_pem.bytes()
