"""Where a recording may be: a folder of this machine, or a place in an object store.

    s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER

A place is shown in messages, in the list of processes and in Spark's plans, so it holds no secret:
credentials are found by the store's own client, on the machine that connects.
"""

from pathlib import Path
from string import punctuation
from urllib.parse import parse_qsl, quote, unquote, urlsplit

OBJECT_STORES = ("s3", "gs", "abfs")
_STORES = (*OBJECT_STORES, "gcs", "abfss")  # with other names of these
# In the names of a URL's options that are secret: of Azure, `client_secret`, and `sig` of a SAS.
_SECRET = ("secret", "sig", "key", "token", "password")
_EXPECTED = "write s3://BUCKET/FOLDER, gs://BUCKET/FOLDER, abfs://…, or a folder"

Place = Path | str  # a folder, or the URL of a place in an object store


def place(text: str) -> Place:
    """Returns the folder or the URL that a text names.

    Raises:
        ValueError: it is a URL that cannot be used; the message says why.
    """
    scheme, found, _ = text.partition("://")
    if not found:
        scheme, found, _ = text.partition(":/")
        if found and scheme in _STORES:
            raise ValueError(f"{text} lacks a slash; {_EXPECTED}")
        return Path(text)
    url = urlsplit(text)
    if scheme == "file":
        return Path(unquote(url.path))
    if scheme not in _STORES:
        raise ValueError(f"a recording can't be at {scheme}://; {_EXPECTED}")
    login, _, host = url.netloc.rpartition("@")
    if not host:
        raise ValueError(f"{text} names no bucket; {_EXPECTED}")
    if ":" in login or (login and scheme == "s3"):
        raise ValueError(
            f"{scheme}://{host}{url.path} is given with a login before the @, which others can "
            "read: leave it out, and let the store's client find it (environment variables, a "
            "profile, or the machine's role)"
        )
    for name, _ in parse_qsl(url.query, keep_blank_values=True):
        if any(word in name.lower() for word in _SECRET):
            raise ValueError(
                f"{scheme}://{url.netloc}{url.path} is given with the option {name}, which others "
                "can read: leave it out, and let the store's client find it (environment "
                "variables, a profile, or the machine's role)"
            )
    return text


def url_of(where: str) -> str:
    """Returns the URL of a place in letters that URLs may have: people write others, too."""
    return quote(where, safe=punctuation.replace("#", ""))


def is_in_object_store(text: str) -> bool:
    """Returns whether a text is the URL of an object store, and not a folder or a topic."""
    return text.partition("://")[0] in _STORES and "://" in text


def shown_place(where: Place) -> str:
    """Returns a place for people, without the options of its URL."""
    return str(where).partition("?")[0] if isinstance(where, str) else str(where)
