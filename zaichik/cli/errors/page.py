"""The page docs/use/errors.md, made from the table of codes; `make docs` runs it through cog."""

from collections.abc import Iterator
from posixpath import relpath

from zaichik.cli.errors.codes import GROUPS
from zaichik.cli.errors.section import Section
from zaichik_protocol import EndCode, GoAwayCode

# The headings of docs/understand/semantics.md that rules stand under, as anchors.
_ANCHORS = {
    "TOP": "top-topics",
    "RET": "ret-retention",
    "COM": "com-compaction",
    "TAB": "tab-tables",
    "JRN": "jrn-the-journal",
    "DUR": "dur-durable-topics",
    "ACC": "acc-access",
    "CMT": "cmt-commit-and-flow-control",
    "SHR": "shr-shared-names",
    "LAG": "lag-falling-behind",
    "TIM": "tim-taking-too-long",
    "UNS": "uns-clo-leaving",
    "CLO": "uns-clo-leaving",
    "PUB": "pub-publishing",
    "AK": "ak-acknowledged-after-replication",
    "EXP": "exp-explaining",
    "ERR": "err-errors",
}


def page() -> str:
    """Returns an index and the sections of all codes, group by group, as Markdown."""
    index = [f"- {title}: {', '.join(map(_link, group))}" for title, group in GROUPS.items()]
    groups = [
        f"## {title}\n\n" + "\n\n".join(map(_entry, group)) for title, group in GROUPS.items()
    ]
    return "\n\n".join(["\n".join(index), *groups])


def _heading(section: Section) -> str:
    """Returns a heading for each code: an Error and the end of a subscription may share a name."""
    is_other = isinstance(section.code, EndCode | GoAwayCode)
    return f"{section.name} in {section.frame}" if is_other else section.name


def _link(section: Section) -> str:
    return f"[{section.name}](#{_heading(section).lower().replace(' ', '-')})"


def _entry(section: Section) -> str:
    paragraphs = [
        f"### {_heading(section)}",
        f"*{section.title[0].upper()}{section.title[1:]}.* {section.kind}",
    ]
    paragraphs += [
        f"**What.** {section.what}",
        f"**Why.** {section.why}",
        f"**Next.** {section.then}",
    ]
    if links := list(_links(section)):
        paragraphs.append(f"More: {' · '.join(links)}")
    return "\n\n".join(paragraphs)


def _links(section: Section) -> Iterator[str]:
    for rule in section.rules.split():
        yield f"[{rule}](../understand/semantics.md#{_ANCHORS[rule.partition('-')[0]]})"
    if (chapter := section.chapter) is not None:
        yield (
            f"[chapter {chapter.number:02}, "
            f"{chapter.title}](../../tutorial/{chapter.folder}/README.md)"
        )
    if section.page:
        yield f"[docs/{section.page.partition('#')[0]}]({relpath(section.page, 'use')})"
