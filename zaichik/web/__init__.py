"""`zaichik web`: the broker in a browser. A program of its own, and to the broker a client like any other.

| file | idea |
| --- | --- |
| `run` | listens, and stops without a trace |
| `connection` | none of a few hundred browsers can keep the others out |
| `guard` | who may ask at all: nothing else sees a request before it |
| `app` | the addresses: what is asked there, and what is answered |
| `sessions` | who is logged in, and who asks the broker for them |
| `hub` | asks the broker, once for all pages of a user |
| `interests` | what is asked, and the cut of it that each page is shown |
| `shown` | a topic, as pages get it |
| `events` | how a page is told: all of it at first, then only what has changed |
| `commands` | what is on screen, as command lines and as Python |
| `scraping`, `metrics` | what programs ask: Prometheus, and whoever watches over processes |
| `stage` | scenes for teachers, on brokers of their own |
"""
