"""What is on screen, as command lines and as Python: ways to do the same without a browser.

Topics, keys and payloads are untrusted, so they are never pasted into a line: `shlex.quote` and
`repr` write them, and `--` keeps a topic or payload that begins with a dash from being an option.
No line has a secret in it. Where a login is needed, command lines leave the address out, because
`zaichik login` keeps it together with the token, and programs find both in ZAICHIK_CONNECT.
"""

import shlex
from dataclasses import replace

from zaichik import Endpoint

MESSAGES = """\
with client.subscribe({topic!r}) as messages:
        for message in messages:
            print(message.offset, message.key, message.payload)"""


class Commands:
    """Writes them for one broker.

    Args:
        endpoint: the broker.
        needs_login: whether it asks for one.
    """

    def __init__(self, endpoint: Endpoint, *, needs_login: bool) -> None:
        self._line = "" if needs_login else replace(endpoint, credentials=None).line
        self._address = self._line if endpoint.is_encrypted else self._line.partition("://")[2]

    def of(self, kind: str, topic: str = "") -> dict[str, str]:
        """Returns commands that show the same as a view; for a topic, also some to read it."""
        match kind:
            case "topic":
                return {
                    "shell": self._shell("describe", topic=topic),
                    "python": self._python(f"print(client.topic({topic!r}))"),
                    "shell_messages": self._shell("subscribe", topic=topic),
                    "python_messages": self._python(MESSAGES.format(topic=topic)),
                }
            case "connections":
                return {
                    "shell": self._shell("describe", "--connections"),
                    "python": self._python("print(client.connections())"),
                }
        return {"shell": self._shell("topics"), "python": self._python("print(client.topics())")}

    def publishing(self, topic: str, payload: str, key: str) -> dict[str, str]:
        """Returns commands that publish a message."""
        options = (f"--key={key}",) if key else ()
        keyed = f", key={key!r}" if key else ""
        code = f"print(client.publish({topic!r}, {payload!r}.encode(){keyed}))"
        return {
            "shell": self._shell("publish", *options, topic=topic, payload=payload),
            "python": self._python(code),
        }

    def _shell(
        self, command: str, *options: str, topic: str = "", payload: str | None = None
    ) -> str:
        where = ("--connect", self._address) if self._address else ()
        words = (*((topic,) if topic else ()), *(() if payload is None else (payload,)))
        dashes = ("--",) if any(word.startswith("-") for word in words) else ()
        return shlex.join(("zaichik", command, *where, *options, *dashes, *words))

    def _python(self, code: str) -> str:
        imports = "import os\n\nfrom zaichik import blocking"
        if self._address:
            imports = "from zaichik import blocking"
        broker = repr(self._line) if self._address else 'os.environ["ZAICHIK_CONNECT"]'
        return f"{imports}\n\nwith blocking.connect({broker}) as client:\n    {code}\n"
