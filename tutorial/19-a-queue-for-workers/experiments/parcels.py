"""Two packers subscribe to the orders. Who packs what?"""

from zaichik.learn.lab import running

with running() as broker:
    pia, ted, shop = broker.client(), broker.client(), broker.client()
    pia.subscribe("orders")
    ted.subscribe("orders")
    shop.publish("orders", b"two apples", b"three pears")
    for name, packer in (("Pia", pia), ("Ted", ted)):
        for _ in range(2):
            order = packer.frame().messages[0]
            print(name, "packs", order.payload.decode())
