"""The book as a site: every page of the project, and the stage, as files that any host can serve.

`make site` runs it. The Markdown stays what it is, and is read in the repository as well; the site
adds search, dark colours, and pictures that move.

| file | idea |
| --- | --- |
| `pages` | which pages are in the book, and in which order |
| `book` | the same Markdown, with links and pictures as the site needs them, made into HTML |
| `lists` | indents lists as zensical wants them |
| `sources` | files of the repository that pages link to, as highlighted pages |
| `stage` | the stage of `zaichik web` without a server, from Python for browsers |
| `links` | every link of the site leads somewhere, and none loads anything from another host |
| `mkdocs.yml`, `theme` | how the pages look, for zensical, which makes them |
| `page` | what runs in the browser on the page of the stage |
"""
