"""Which web pages may connect: a browser lets every page on the web try.

A WebSocket may be opened to any host by any page, and no CORS stands in between: all that a server
gets is the handshake, in which the browser says under which name it looked the server up (`Host`)
and which page it is (`Origin`). So both are compared with names of ours:

- `Host` must be a name of this server. Otherwise a page could have its own name point here (DNS
  rebinding).
- `Origin`, if there is one, must be a page of this machine, or one that was allowed. Programs other
  than browsers send none, or any that they like: this protects people with browsers, and logins
  protect the broker.
"""

from collections.abc import Iterable

from zaichik.apps.web.names import NotAName, PageName

# Names of this machine that no name server can give to another one.
LOCAL = ("localhost", "127.0.0.1", "[::1]")


class Refused(Exception):
    """A handshake was refused.

    Args:
        status: HTTP's status of the answer.
        sentence: what is wrong.

    Attributes:
        status: see above.
        sentence: see above.
    """

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(status, sentence)
        self.status = status
        self.sentence = sentence

    def __str__(self) -> str:
        """What is wrong."""
        return self.sentence


class Origins:
    """The names of this server, and of the pages that may connect to it.

    Args:
        port: where it listens.
        scheme: "http" or "https": whether it speaks TLS.
        hosts: names of the server, besides those of this machine; see `PageName`.
        pages: origins of pages, besides those of this machine, as `page` takes them.

    Raises:
        NotAName: one of them is written in another way.
    """

    def __init__(
        self, port: int, scheme: str, hosts: Iterable[str] = (), pages: Iterable[str] = ()
    ) -> None:
        names = [PageName.of(name) for name in (*LOCAL, *hosts)]
        self._hosts = {host for name in names for host in name.hosts(port, scheme)}
        self._pages = set(map(page, pages))

    def check(self, host: str, origins: list[str]) -> None:
        """Return if a handshake with these headers is let in.

        Args:
            host: what stands in `Host`.
            origins: what stands in each `Origin`.

        Raises:
            Refused: it is not.
        """
        if host.lower() not in self._hosts:
            raise Refused(
                421,
                "this server is not at that address; to reach it under another name, start it "
                "with --allow-host",
            )
        if len(origins) > 1 or not all(map(self._is_allowed, origins)):
            raise Refused(
                403, "a page of another site has asked for this; start it with --allow-origin"
            )

    def _is_allowed(self, origin: str) -> bool:
        try:
            name = page(origin)
        # One is "null", as of a file, and as of frames that any site can make.
        except NotAName:
            return False
        return name in self._pages or PageName.of(origin).host in LOCAL


def page(text: str) -> str:
    """Returns the origin of a page, http[s]://HOST[:PORT], as a browser writes it.

    Raises:
        NotAName: it is written in another way.
    """
    name = PageName.of(text)
    if name.scheme is None:
        raise NotAName(f"{text!r} is no origin of a page; write http[s]://HOST[:PORT]")
    # With a scheme, there is one place only, whatever the port here.
    (origin,) = name.origins(0, name.scheme)
    return origin
