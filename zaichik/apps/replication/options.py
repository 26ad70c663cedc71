"""More settings of Kafka's client, in a file: those of TLS and of a login, which is a secret.

The form is that of librdkafka's own programs: `NAME=VALUE` in each line, and comments after `#` at
the beginning of a line.
"""


class NotOptions(ValueError):
    """A file has no settings of Kafka's client; the message says where, and what is wrong."""


def options_in(text: str) -> dict[str, str]:
    """Returns the settings in the text of a file.

    Raises:
        NotOptions: a line is none, or names a setting again.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        name = name.strip()
        # A line may be a password, so it is not shown.
        if not equals or not name:
            raise NotOptions(f"line {number} is not NAME=VALUE, such as security.protocol=SASL_SSL")
        if name in found:
            raise NotOptions(f"line {number} names {name} again")
        found[name] = value.strip()
    return found
