"""Every link of the site leads somewhere, and nothing is loaded from another host."""

import os
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# The attributes that name another file. A page loads all of them but those of an `a`, which the
# reader follows.
REFERENCES = {"href", "src", "data-stage"}

# The hash of these pages is not an anchor: it says what is shown.
WITH_VIEWS = {"stage/index.html"}


ANCHOR = re.compile(r"""<[^>]* id="([^"]+)\"""")

# Code has lines that can be linked to, but no links. It is most of the site.
CODE = re.compile(r"<pre.*?</pre>", re.DOTALL)


class Links(HTMLParser):
    """What a page links to.

    Attributes:
        found: each link, with its element.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the links of an element."""
        self.found += [(tag, value) for name, value in attrs if name in REFERENCES and value]


def faults(site: Path) -> list[str]:
    """Returns what is wrong with the links of a site, a sentence for each; none if all is well."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    anchors = {path: set(ANCHOR.findall(text)) for path, text in texts.items()}
    found = []
    for path, text in texts.items():
        links = Links()
        links.feed(CODE.sub("", text))
        for tag, link in links.found:
            if fault := _fault(site, path, tag, link, anchors):
                found.append(f"{path.relative_to(site).as_posix()}: {fault}")
    return found


def _fault(site: Path, page: Path, tag: str, link: str, anchors: dict[Path, set[str]]) -> str:
    """Returns what is wrong with a link of a page; "" if it is right."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        if tag == "a" or parts.scheme == "data":
            return ""
        return f"{tag} loads {link}, which is not a file of the site"
    if parts.path.startswith("/"):
        return f"{link} is right only at the root of a host"
    aim = page
    if parts.path:
        aim = Path(os.path.normpath(page.parent / unquote(parts.path)))
    if aim.is_dir():
        aim /= "index.html"
    if not aim.is_relative_to(site) or not aim.is_file():
        return f"{link} leads nowhere"
    anchor = unquote(parts.fragment)
    has_views = aim.relative_to(site).as_posix() in WITH_VIEWS
    if anchor and not has_views and anchor not in anchors.get(aim, ()):
        return f"{link}: that page has no such place"
    return ""
