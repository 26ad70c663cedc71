"""`zaichik web`: the broker in a browser.

A program of its own, and to the broker a client like any other.

| file | idea |
| --- | --- |
| `run` | listens, and stops without a trace |
| `connection` | deadlines: none of a few hundred browsers can keep the others out |
| `guard` | which requests are let in at all: it sees them before anything else does |
| `names` | the names under which the page is reached, as a browser writes them |
| `app` | the addresses, and what each answers |
| `sessions` | logins, and the hub that asks the broker for each |
| `hub` | asks the broker, once for all pages of a user |
| `interests` | what is asked, and the part of it that each page is shown |
| `shown` | a topic, as pages get it |
| `events` | what is sent to a page: everything at first, then only what has changed |
| `commands` | what is on screen, as command lines and as Python |
| `scraping`, `metrics` | for programs: Prometheus, and health checks |
| `topics` | for programs: publishing and reading with `curl` and `EventSource` |
| `stage` | scenes for teachers, on brokers of their own |
"""
