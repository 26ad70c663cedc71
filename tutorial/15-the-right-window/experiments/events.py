"""A thousand readings of twenty thermometers, some of them chatty."""

import random

random.seed(2020)
at, degrees = 0, dict.fromkeys(range(20), 20)
for _ in range(1000):
    at += random.choice((50, 200, 900, 3000))
    door = min(19, int(random.expovariate(0.25)))
    if random.random() < 0.2:
        degrees[door] += random.choice((-1, 1))
    print(f"{at},t{door},{degrees[door]}")
