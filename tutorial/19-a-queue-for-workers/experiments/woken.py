"""A packer wakes up, and somebody else has her order."""

from experiments.sharing import RETRY, Packer

from zaichik.learn.caller import Silence
from zaichik.learn.lab import running

with running() as broker:
    shop = broker.client()
    pia = Packer(broker, "Pia", timeout_ms=500)
    shop.publish("orders", b"two apples")
    order = pia.take()
    print("Pia has order", order["base"], "and falls asleep")
    ted = Packer(broker, "Ted")
    print("Ted has order", ted.take()["base"])
    is_late = pia.settle(order, RETRY)
    pia.go_home()
    how = "too late" if is_late else "in time"
    print("Pia wakes up, says that she can't, and goes home:", how)
    try:
        print("Ted is handed order", ted.take(2)["base"], "and has it already")
    except Silence:
        print("Ted goes on packing")
