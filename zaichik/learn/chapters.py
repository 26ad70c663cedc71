"""The tutorial's chapters: one table, so that a test can check every link."""

from pathlib import Path
from typing import NamedTuple

# Next to the package in a clone; an installed package has none.
TUTORIAL = Path(__file__).parents[2] / "tutorial"


class Chapter(NamedTuple):
    """A chapter's number, title, and folder in the tutorial."""

    number: int
    title: str
    folder: str

    @property
    def path(self) -> Path:
        """The path of its folder."""
        return TUTORIAL / self.folder

    @property
    def text(self) -> Path:
        """The file to read."""
        return self.path / "README.md"

    def show(self) -> str:
        """Its number and title, and its path if it is here."""
        where = f": {self.text}" if self.text.exists() else ""
        return f"chapter {self.number:02}, {self.title}{where}"


def protocol() -> str:
    """Where every frame is described in full: the path in a clone, else the name."""
    path = TUTORIAL.parent / "protocol" / "README.md"
    return f"the wire protocol: {path if path.exists() else 'protocol/README.md of the project'}"


CHAPTERS = {
    chapter.number: chapter
    for chapter in (
        Chapter(0, "See the end first", "00-see-the-end-first"),
        Chapter(1, "TCP has no messages", "01-tcp-has-no-messages"),
        Chapter(2, "Frames: incomplete, complete, invalid", "02-frames"),
        Chapter(3, "Declaring a protocol", "03-declaring-a-protocol"),
        Chapter(4, "An echo server", "04-an-echo-server"),
        Chapter(5, "Task groups", "05-task-groups"),
        Chapter(6, "Somebody else's news", "06-somebody-elses-news"),
        Chapter(7, "One row, many cursors", "07-one-row-many-cursors"),
        Chapter(8, "Never wait on two things", "08-never-wait-on-two-things"),
        Chapter(9, "Commit and credit", "09-commit-and-credit"),
        Chapter(10, "Retention", "10-retention"),
        Chapter(11, "Compaction windows", "11-compaction"),
        Chapter(12, "Slow consumers", "12-slow-consumers"),
        Chapter(13, "The client library", "13-the-client-library"),
        Chapter(14, "Measuring", "14-measuring"),
        Chapter(15, "The right window", "15-the-right-window"),
        Chapter(16, "The real broker", "16-the-real-broker"),
        Chapter(17, "What a disk changes", "17-what-a-disk-changes"),
        Chapter(18, "A table in a topic", "18-a-table-in-a-topic"),
        Chapter(19, "A queue for workers", "19-a-queue-for-workers"),
    )
}
