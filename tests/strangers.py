"""Which tests need what a machine may lack: root's rights, a namespace, somebody else's program.

Where it is missing, a test is skipped and says so. `make test-strangers` runs all of them, those
that `make test` leaves out as well, so that one look shows what was tried on a machine and what was
not. `tests/conftest.py` marks them `stranger`, by what is written here; nothing else chooses.
"""

# How the names of the tests begin, with the path of their file, and what they need.
STRANGERS = {
    "tests/apps/statistics/test_page_in_browser.py": "a browser",
    "tests/apps/web/test_deployed.py": "promtool",
    "tests/apps/web/test_page.py": "a browser",
    "tests/apps/web/test_scraping.py": "Prometheus",
    "tests/apps/web/topics/test_curl.py": "curl",
    "tests/apps/web/topics/test_event_source.py": "a browser",
    "tests/chaos/test_system_calls.py": "strace, and the right to trace",
    "tests/cli/test_interrupts.py::test_sigterm_ends_the_first_process": "a namespace",
    "tests/deploy/test_dockerfile.py": "hadolint",
    "tests/deploy/test_unit_and_rules.py": "systemd-analyze",
    "tests/docs/site/test_site_in_browser.py": "a browser, Node.js and npm",
    "tests/net/test_tls.py": "openssl",
    "tests/protocol/test_dissector.py": "tshark",
    "tests/server/access/test_attacks_on_the_wire.py": "openssl",
}


def needed(name: str) -> str:
    """Returns what the test of this name needs; "" if any machine will do."""
    path, _, test = name.partition("::")
    plain = f"{path}::{test.rpartition('::')[2]}"  # without its class
    for beginning, what in STRANGERS.items():
        if plain.startswith(beginning):
            return what
    return ""
