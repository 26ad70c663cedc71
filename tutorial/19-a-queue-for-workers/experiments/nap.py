"""A packer falls asleep over an order. Her connection is fine."""

from experiments.sharing import Packer

from zaichik.learn.caller import Silence
from zaichik.learn.lab import running

with running() as broker:
    shop = broker.client()
    pia = Packer(broker, "Pia", timeout_ms=500)
    shop.publish("orders", b"two apples")
    print("Pia has order", pia.take()["base"], "and falls asleep")
    ted = Packer(broker, "Ted")
    for packer in (ted, pia):
        try:
            order = packer.take(4)["base"]
        except Silence:
            print(packer.name, "gets nothing")
        else:
            print(packer.name, "gets order", order)
