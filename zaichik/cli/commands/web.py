r"""`zaichik web`: the broker in a browser.

The page's server is a program of its own, and a client of the broker.

Show a broker in a browser: all topics, one topic and its readers as they move, who is connected,
and a stage with scenes for a class. By default, only this machine can reach the page. The page is
read-only, unless --write is given. If there is no broker, the page says so, and waits for one.

If the broker requires a login, each browser logs in for itself, with a token or a password that is
kept in memory only. Pages never use the login of this command, because everyone who can reach the
page would see what you may see. Only --metrics uses it, for Prometheus, at /metrics.

Programs read topics at /topics/NAME, as server-sent events or as lines of JSON, and with --write
they publish there, too. With access control, they send Authorization: Bearer TOKEN.

Examples:
  zaichik web                    # at http://127.0.0.1:8080
  zaichik web --write            # with a box to publish messages
  curl -N 'http://127.0.0.1:8080/topics/orders?start=earliest'
  curl -d 'two apples' 'http://127.0.0.1:8080/topics/orders?key=alice'
  zaichik web --metrics          # with what you may see at /metrics, for all
  zaichik web --connect zaichiks://broker.example:8889 --port 9000
  zaichik web --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem \
      --allow-host broker.example
  zaichik web --port 0 --json    # a free port; prints {"url": ..., ...}
  zaichik serve --web            # a broker and its page
"""

import logging
import os
import socket
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
from rich.console import Console
from rich.text import Text

from zaichik.apps.web.names import NotAName, PageName
from zaichik.base.extras import getting
from zaichik.cli import (
    acked_by,
    address,
    connecting,
    default_ports,
    front_end,
    screen,
    serve_log,
    until_stdin_closes,
)
from zaichik.cli.arguments import Argument, Namespace, WrongUsage, argument
from zaichik.cli.failure import Failure, listening, restated
from zaichik.cli.signals import stopping

logger = logging.getLogger("zaichik.console.web")

MOST_SERIES = 2000  # topics with series of their own, 14 each: two megabytes a scrape
# The broker's limit of subscriptions for one connection, which all programs of a user share.
MOST_STREAMS = 1000
NO_METRICS = (
    "others can reach this address: to let them read metrics, start `zaichik web` with --metrics"
)
MISSING = f"zaichik web needs starlette and uvicorn; get them with {getting('web')}"


def _count(what: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= MOST_SERIES):
        raise WrongUsage(f"{text!r} is not a number of {what} from 0 to {MOST_SERIES:,}")
    return int(text)


def _streams(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= MOST_STREAMS):
        raise WrongUsage(f"{text!r} is not a number of streams from 1 to {MOST_STREAMS:,}")
    return int(text)


def _name(text: str) -> str:
    with restated(NotAName, by=WrongUsage):
        PageName.of(text)
    return text


def _most(what: str, named: str) -> Argument:
    text = f"how many {named} have metrics of their own"
    return argument(f"--metrics-{what} N", text, partial(_count, what), default=200)


ARGUMENTS = (
    connecting.ADDRESS,
    front_end.HOST,
    front_end.port(default_ports.WEB),
    argument("--write", "let pages and programs publish messages"),
    argument(
        "--metrics",
        "let everyone who can reach the address read /metrics, which shows what the login of this "
        "command may see",
    ),
    _most("topics", "topics"),
    _most("sessions", "named subscriptions"),
    argument(
        "--streams N",
        "how many streams of topics programs may have open; each takes up to 8 MiB while its "
        "client reads nothing",
        _streams,
        default=64,
    ),
    argument(
        "--allow-host NAME",
        "another name under which browsers reach the page, also through a proxy: HOST, HOST:PORT "
        "or https://HOST; may be repeated",
        _name,
        action="append",
        default=[],
    ),
    argument("--tls-cert FILE", "serve the page over TLS: its certificate, PEM", Path),
    argument("--tls-key FILE", "the certificate's private key, PEM", Path),
    acked_by.option("answer what programs publish when WHAT has it, too; WHAT is kafka"),
    argument("--insecure", "serve other machines without a login, or without TLS"),
    argument("--json", "when ready, print one JSON object: url, pid, broker"),
    until_stdin_closes.OPTION,
    *serve_log.OPTIONS,
)


async def run(arguments: Namespace, console: Console) -> int:
    """Serve the page until a signal comes. Returns the exit code."""
    # The brokers of stages, with up to ten connections each, come and go without a line for each of
    # them.
    with (
        serve_log.written(arguments),
        screen.at_level(logging.WARNING, "zaichik.broker", "zaichik.serving"),
    ):
        try:
            await _serve(arguments, console)
        except Failure as failure:
            if arguments.log_format == "text":
                raise
            logger.error("there is no page: %s", failure)  # noqa: TRY400 (it is no bug)
            return failure.code
    return 0


async def _serve(arguments: Namespace, console: Console) -> None:
    try:
        from zaichik.apps.web.app import Options
        from zaichik.apps.web.run import run as serve_page
        from zaichik.apps.web.scraping import Scraped
    except ModuleNotFoundError as error:
        raise Failure(MISSING) from error
    tls = front_end.tls(arguments)
    stop = anyio.Event()
    with _listening(arguments.host, arguments.port) as listener:
        here = address.Address(*listener.getsockname()[:2])
        if not here.is_loopback and tls is None and not arguments.insecure:
            raise Failure(
                f"other machines can reach {here.host}, and what the page shows could be read on "
                "the way: add --tls-cert and --tls-key, or leave out --host (this machine only), "
                "or add --insecure"
            )
        # Each user of the page logs in; the command's own login is for metrics alone.
        anonymous = replace(arguments.connect, credentials=None)
        scraped_from = anonymous
        if arguments.metrics:
            scraped_from = arguments.connect
        why_not = ""
        if not arguments.metrics and not here.is_loopback:
            why_not = NO_METRICS
        scraped = Scraped(
            endpoint=scraped_from,
            topics=arguments.metrics_topics,
            sessions=arguments.metrics_sessions,
            why_not=why_not,
        )
        options = Options(
            endpoint=anonymous,
            is_reachable=not here.is_loopback and not arguments.insecure,
            is_encrypted=tls is not None,
            can_write=arguments.write,
            port=here.port,
            scraped=scraped,
            acked_by=acked_by.chosen(arguments),
            streams=arguments.streams,
        )
        # Signals are caught before the announcement: a program that waits for it may send one right
        # away.
        async with stopping(lambda _: stop.set()) as tasks:
            if arguments.until_stdin_closes:
                tasks.start_soon(until_stdin_closes.stop_when_closed, stop)
            ready = partial(_announce, here, arguments, console)
            await serve_page(
                listener, options, tls=tls, allowed=arguments.allow_host, stop=stop, ready=ready
            )


def _listening(host: str, port: int) -> socket.socket:
    """Returns a socket that listens there.

    Raises:
        Failure: there is none; the sentence says why, and what to do.
    """
    with listening(
        port, "zaichik web --port PORT, or zaichik serve --web PORT", "another page", host
    ):
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )


def _announce(here: address.Address, arguments: Namespace, console: Console) -> None:
    scheme = "https" if arguments.tls_cert else "http"
    url = f"{scheme}://{here}"
    broker = str(arguments.connect)
    if arguments.json:
        screen.print_json({"url": url, "pid": os.getpid(), "broker": broker})
    elif arguments.log_format == "json":
        logger.info("the page is at %s, for the broker at %s", url, broker)
    else:
        text = Text.assemble("the page is at ", (url, "bold"), f", for the broker at {broker}")
        console.print(text, soft_wrap=True)
    if arguments.connect.secret and not arguments.metrics:
        screen.remark(
            "the login of this command is not used here: if the broker asks, each browser logs in "
            "for itself"
        )
