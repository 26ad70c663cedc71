"""Two packers share a name, and one goes home."""

from experiments.sharing import Packer

from zaichik.learn.lab import running

with running() as broker:
    shop = broker.client()
    pia, ted = Packer(broker, "Pia"), Packer(broker, "Ted")
    shop.publish("orders", b"two apples", b"three pears")
    for packer in (pia, ted):
        print(packer.name, "has order", packer.take()["base"])
    pia.go_home()
    ida = Packer(broker, "Ida")
    print("Pia goes home; Ida has order", ida.take()["base"])
