"""An order that nobody can pack, and one behind it."""

from experiments.sharing import DONE, RETRY, Packer

from zaichik.learn.caller import Silence
from zaichik.learn.lab import running

MOST = 100

with running() as broker:
    shop = broker.client()
    pia = Packer(broker, "Pia", max_deliveries=3)
    shop.publish("orders", b"a stone", b"two apples")
    deliveries = [0, 0]
    try:
        while sum(deliveries) < MOST:
            order = pia.take()
            deliveries[order["base"]] += 1
            is_stone = order.messages[0].payload == b"a stone"
            pia.settle(order, RETRY if is_stone else DONE)
    except Silence:
        print("there's nothing more to do")
    print("order 0, a stone:", deliveries[0], "deliveries")
    print("order 1, two apples:", deliveries[1], "deliveries")
