"""The dashboard and the alerts: they ask for metrics that there are, in a language that Prometheus
understands.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from zaichik.apps.web import metrics

pytestmark = pytest.mark.unmeasured

DEPLOY = Path(__file__).parents[3] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "zaichik.json").read_text(encoding="utf-8"))
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
NAMES = {family.full_name for family in metrics.ALL}
SUFFIX = re.compile("_(bucket|sum|count)$")
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="there is no promtool (Debian: apt install prometheus)"
)


def expressions():
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]


def named(text):
    """Returns the metrics that are named in a text."""
    return {SUFFIX.sub("", name) for name in re.findall(r"\bzaichik_\w+", text)}


def promtool(*words):
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_dashboard_shows_every_metric_and_none_that_there_is_not():
    asked = named(" ".join(expressions()))
    assert asked == NAMES
    variables = " ".join(str(variable.get("query")) for variable in DASHBOARD["templating"]["list"])
    assert named(variables) <= NAMES


def test_its_labels_are_those_of_the_metrics():
    known = {label for family in metrics.ALL for label in family.labels} | {"instance", "le"}
    legends = [
        target["legendFormat"]
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", [])
    ]
    assert set(re.findall(r"\{\{(\w+)\}\}", " ".join(legends))) <= known
    assert set(re.findall(r"(\w+)=~?\"", " ".join(expressions()))) <= known


def test_its_panels_have_a_place_each_and_a_description():
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not taken & cells
        assert max(x for x, _ in cells) < 24
        assert panel["type"] == "row" or panel["description"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@needs_promtool
def test_prometheus_understands_what_the_dashboard_asks(tmp_path):
    asked = [
        it.replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$topic", ".*")
        for it in expressions()
    ]
    rules = [
        {"record": f"asked:{number}", "expr": expression} for number, expression in enumerate(asked)
    ]
    (tmp_path / "rules.yml").write_text(
        json.dumps({"groups": [{"name": "dashboard", "rules": rules}]})
    )
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(tmp_path / "rules.yml"))


def test_alerts_are_about_metrics_that_there_are():
    asked = named(ALERTS.read_text(encoding="utf-8"))
    assert asked <= NAMES
    assert len(asked) > 10


@needs_promtool
def test_alerts_come_when_something_is_wrong_and_not_before():
    promtool("check", "rules", str(ALERTS))
    promtool("test", "rules", str(ALERTS.with_name("alerts.test.yml")))


def test_the_page_about_metrics_is_current():
    command = [sys.executable, "-m", "cogapp", "--check", "--diff", "docs/run/metrics.md"]
    done = subprocess.run(command, cwd=DEPLOY.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run `make docs`\n{done.stdout}{done.stderr}"


def test_every_alert_is_tested():
    """That each is explained, too, is tested with the page for operators (tests/deploy)."""
    alerts = set(re.findall(r"- alert: (\w+)", ALERTS.read_text(encoding="utf-8")))
    tested = ALERTS.with_name("alerts.test.yml").read_text(encoding="utf-8")
    assert alerts
    for alert in alerts:
        assert tested.count(f"alertname: {alert}\n") >= 1, "it comes"
