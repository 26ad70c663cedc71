"""The second order is packed before the first."""

from experiments.sharing import DONE, Packer

from zaichik.learn.lab import running

with running() as broker:
    shop = broker.client()
    pia, ted = Packer(broker, "Pia"), Packer(broker, "Ted")
    shop.publish("orders", *[b"apples"] * 4)
    hers, his = pia.take(), ted.take()
    for packer, order in ((ted, his), (pia, hers)):
        packer.settle(order, DONE)
        done, following = order["base"], packer.take()["base"]
        print(packer.name, "is done with", done, "and has", following)
