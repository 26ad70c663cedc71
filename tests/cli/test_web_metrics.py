"""`zaichik web --metrics`: whose view it is that programs may read."""

import pytest

TOKEN = f"zk_{'s' * 43}"
LOGIN = f"zaichiks://{TOKEN}@127.0.0.1:1"


@pytest.fixture
def scraped(zaichik, monkeypatch):
    """Returns what programs may read of a page that was started with these words."""
    seen = []
    monkeypatch.setenv("ZAICHIK_CONNECT", LOGIN)

    async def run(_, options, **__):
        seen.append(options)

    monkeypatch.setattr("zaichik.apps.web.run.run", run)

    def start(*words):
        assert zaichik("web", "--port", "0", *words).code == 0
        (options,) = seen
        assert options.endpoint.credentials is None, "pages never have it"
        return options.scraped

    return start


def test_the_login_of_the_command_is_used_only_if_that_is_asked_for(scraped):
    found = scraped()
    assert (found.endpoint.credentials, found.why_not) == (None, "")


def test_with_metrics_programs_see_what_the_login_may_see(scraped):
    found = scraped("--metrics", "--metrics-topics", "7", "--metrics-sessions", "0")
    assert (found.endpoint.credentials.secret, found.why_not) == (TOKEN, "")
    assert (found.topics, found.sessions) == (7, 0)


def test_where_others_can_reach_the_page_there_are_no_metrics_unless_asked_for(scraped):
    assert "--metrics" in scraped("--host", "0.0.0.0", "--insecure").why_not  # noqa: S104


def test_they_can_be_asked_for_there(scraped):
    assert scraped("--host", "0.0.0.0", "--insecure", "--metrics").why_not == ""  # noqa: S104


@pytest.mark.parametrize("number", ["-1", "2001", "many", "1.5"])
def test_the_number_of_series_has_a_limit(zaichik, number):
    result = zaichik("web", "--metrics-topics", number)
    assert result.code == 2
    assert "is not a number of topics from 0 to 2,000" in result.err
