"""An order that crashes each program that has it."""

from experiments.sharing import Packer

from zaichik.learn.lab import running

TIMES = 20

with running() as broker:
    shop = broker.client()
    numbers = []
    for time in range(TIMES):
        packer = Packer(broker, "", credit=3, max_deliveries=3)
        if time == 0:
            shop.publish("orders", b"a bomb", b"apples", b"pears")
        orders = [packer.take() for _ in range(3)]
        numbers.append(orders[0]["number"])
        packer.client.socket.close()  # without a word
    print("packers that crashed:", len(numbers))
    print("deliveries of order 0, as far as they count:", numbers[-1])
