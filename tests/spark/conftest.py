"""What the tests of Spark share: one session, because it takes ten seconds to start, and a broker."""

import anyio.from_thread
import pytest

import zaichik
from zaichik.spark.session import session

START_US = 1_700_000_000_000_000


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session on two cores. Its log is in pytest's folder, not among the tests' output."""
    folder = tmp_path_factory.mktemp("spark")
    config = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # The tables are tiny: what Spark and Java do to make large ones fast takes longer than it saves.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    spark = session("local[2]", config=config, log=folder / "spark.log")
    yield spark
    spark.stop()


class Embedded:
    """A broker in another thread, whose clock the test moves, and a client's calls into it."""

    def __init__(self, portal, server, clock):
        self.portal, self.clock = portal, clock
        self.address = f"{server.host}:{server.port}"
        self.port = server.port

    def create(self, topic, **settings):
        """Make a topic that keeps everything, unless the settings say otherwise; its epoch."""

        async def create():
            async with zaichik.connect(port=self.port) as client:
                return await client.create_topic(topic, **{"retention_ttl": "forever"} | settings)

        return self.portal.call(create).epoch

    def publish(self, topic, *batches):
        """Publish lists of (key, payload)."""

        async def publish():
            async with zaichik.connect(port=self.port) as client:
                return [await client.publish_batch(topic, batch) for batch in batches]

        return self.portal.call(publish)


@pytest.fixture
def broker():
    clock = zaichik.ManualClock(START_US)
    running = zaichik.running_broker(clock=clock)
    with anyio.from_thread.start_blocking_portal() as portal, portal.wrap_async_context_manager(running) as server:
        yield Embedded(portal, server, clock)
