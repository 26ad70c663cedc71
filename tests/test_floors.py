"""The floors of the house: who may import whom, as one table, read from the code's own imports.

A *room* is a folder of `zaichik/`, or one app. Each may import what stands beside it here, besides
the protocol and `base`, which everybody may. Cycles between rooms are impossible where every row
names only rooms above it, so that is tested, too. Inside a room, modules may import each other for
their types.
"""

import ast
from functools import cache
from pathlib import Path

import pytest
from app_imports import BEYOND

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parent.parent
HOUSE = ROOT / "zaichik"
PROTOCOL = ROOT / "protocol" / "zaichik_protocol"

# Each row names only rooms that stand above it.
FLOORS: dict[str, set[str]] = {
    "protocol": set(),
    "base": {"protocol"},
    "learn": set(),
    "net": set(),
    "core": set(),
    "client": {"net"},
    "storage": {"core"},
    "server": {"core", "storage", "net"},
    "blocking": {"client"},  # a public name
    "zaichik": {"client", "net", "core", "storage", "server"},  # what `import zaichik` brings
    # Apps are clients: what one needs beyond these is in `app_imports`, with its reason.
    "apps": {"client", "blocking", "zaichik"},
    "spark": {"apps"},  # public names
    "demo": {"apps"},
    "audit": {"apps"},
}
EVERYBODY_MAY = {"base", "protocol"}
OPEN = {"cli", "__main__"}  # the top: it may import all, and nothing imports it

# Libraries that have one home each.
HOMES = {
    "construct": {"protocol", "cli", "apps/legacy"},
    "rich": {"cli"},
    "pyspark": {"apps/spark", "cli"},
    "starlette": {"apps/web"},
    "uvicorn": {"apps/web"},
    "prometheus_client": {"apps/web"},
    "grpc": {"apps/grpc"},
    "grpc_health": {"apps/grpc"},
    "grpc_reflection": {"apps/grpc"},
    "kafka": {"apps/kafka"},
    "crc32c": {"apps/kafka"},
    "wsproto": {"apps/mqtt"},
    "confluent_kafka": {"apps/replication"},
}
OUTSIDE_OF_THE_CORE = {
    *("anyio", "asyncio", "trio", "socket", "threading", "time", "datetime"),
    *("os", "pathlib", "resource", "subprocess", "shutil"),
}


def room_of(module: str) -> str:
    """Returns the room that a module of ours stands in, by its dotted name."""
    first, *rest = module.split(".")
    if first == "zaichik_protocol":
        return "protocol"
    if not rest or rest[0] == "__init__":
        return "zaichik"
    if rest[0] == "apps":
        return f"apps/{rest[1]}" if len(rest) > 1 else "apps"
    return rest[0]


def module_of(path: Path) -> str:
    """Returns the dotted name of a file of ours."""
    parent = PROTOCOL.parent if path.is_relative_to(PROTOCOL) else ROOT
    return ".".join(path.relative_to(parent).with_suffix("").parts).removesuffix(".__init__")


@cache
def modules() -> dict[str, Path]:
    """Returns all files of ours by their dotted names."""
    return {module_of(path): path for folder in (HOUSE, PROTOCOL) for path in folder.rglob("*.py")}


@cache
def imports(path: Path) -> frozenset[str]:
    """Returns the dotted names of the modules that a file imports, those for types included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            for alias in node.names:
                submodule = f"{module}.{alias.name}"
                found.add(submodule if submodule in modules() else module)
    return frozenset(found)


def is_ours(module: str) -> bool:
    return module.partition(".")[0] in {"zaichik", "zaichik_protocol"}


def test_every_import_stays_on_its_floor():
    refused = []
    for module, path in modules().items():
        room = room_of(module)
        if room in OPEN:
            continue
        strange = {used for used in imports(path) if is_ours(used) and not may_import(room, used)}
        refused += [f"{module} imports {used}, of {room_of(used)}" for used in sorted(strange)]
    assert refused == []


def may_import(room: str, used: str) -> bool:
    """Returns whether a file of the room may import that module."""
    floor, _, app = room.partition("/")
    may = FLOORS[floor]
    if floor != "protocol":
        may = may | EVERYBODY_MAY
    if room_of(used) == room or room_of(used).partition("/")[0] in may:
        return True
    return any(is_below(used, prefix) for prefix in BEYOND.get(app, {}))


def is_below(module: str, prefix: str) -> bool:
    return f"{module}.".startswith(f"{prefix}.")


def test_every_room_has_a_row_and_names_only_rooms_above_it():
    """So rooms cannot import each other in a circle."""
    rooms = {room_of(module).partition("/")[0] for module in modules()}
    assert rooms - OPEN == FLOORS.keys()
    above: set[str] = set()
    for room, may in FLOORS.items():
        assert may <= above, f"{room} may import {may - above}, which stands below it"
        above.add(room)


def test_apps_do_not_need_each_other_in_a_circle():
    apps = {
        room_of(module).partition("/")[2] for module in modules() if room_of(module)[:5] == "apps/"
    }
    assert apps == BEYOND.keys()
    needs = {app: {room_of(name).partition("/")[2] for name in BEYOND[app]} - {""} for app in apps}
    while free := {app for app, needed in needs.items() if not needed}:
        needs = {app: needed - free for app, needed in needs.items() if app not in free}
    assert needs == {}


def test_no_permission_is_without_use():
    unused = []
    for room, may in FLOORS.items():
        paths = [
            path for module, path in modules().items() if room_of(module).split("/")[0] == room
        ]
        used = {
            room_of(name).split("/")[0] for path in paths for name in imports(path) if is_ours(name)
        }
        unused += [f"{room} may import {other}, and does not" for other in sorted(may - used)]
    for app, prefixes in BEYOND.items():
        paths = [path for module, path in modules().items() if room_of(module) == f"apps/{app}"]
        names = {name for path in paths for name in imports(path) | names_of_zaichik(path)}
        unused += [
            f"{app} may import {prefix}, and does not"
            for prefix in prefixes
            if not any(is_below(name, prefix) for name in names)
        ]
    assert unused == []


def names_of_zaichik(path: Path) -> set[str]:
    """Returns the public names that a file uses, such as zaichik.running_broker."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "zaichik":
            found.update(f"zaichik.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "zaichik":
            found.add(f"zaichik.{node.attr}")
    return found


def test_a_house_can_be_seen_at_a_glance():
    """Beside the modules that only keep a public name, ten rooms at the most."""
    children = {path.stem for path in HOUSE.iterdir() if path.is_dir() or path.suffix == ".py"}
    children -= {"__init__", "__main__", "__pycache__"}
    public = {"audit", "blocking", "demo", "spark"}
    assert public <= children
    assert len(children - public) <= 10


def test_modules_of_a_public_name_have_nothing_else():
    for name in ("audit", "blocking", "demo", "spark"):
        for module, path in modules().items():
            if room_of(module) == name:
                body = ast.parse(path.read_text(encoding="utf-8")).body
                assert all(
                    isinstance(node, ast.Expr | ast.ImportFrom | ast.Assign) for node in body
                )


def test_a_library_has_one_home():
    misplaced = []
    for module, path in modules().items():
        used = HOMES.keys() & {name.partition(".")[0] for name in imports(path)}
        misplaced += [
            f"{module} imports {name}" for name in used if room_of(module) not in HOMES[name]
        ]
    assert misplaced == []


def test_the_core_and_the_protocol_neither_wait_nor_ask_for_the_time():
    """Everything in them is synchronous, and gets the time as an argument."""
    refused = []
    waiting = ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith
    for module, path in modules().items():
        if room_of(module) not in {"core", "protocol"}:
            continue
        used = {name.partition(".")[0] for name in imports(path)}
        refused += [f"{module} imports {name}" for name in sorted(used & OUTSIDE_OF_THE_CORE)]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        refused += [f"{module}:{n.lineno} waits" for n in ast.walk(tree) if isinstance(n, waiting)]
    assert refused == []


VIEWS_MAY_IMPORT = {
    "bisect",
    "collections",
    "dataclasses",
    "functools",
    "itertools",
    "math",
    "operator",
    "shlex",
    "typing",
    "unicodedata",
    "xml",
    "zaichik",
    "zaichik_protocol",
}


def test_views_are_pure():
    """They get numbers and return marks or text: no clock, no file, no socket."""
    refused = []
    for module, path in modules().items():
        if room_of(module) != "apps/views":
            continue
        used = {name.partition(".")[0] for name in imports(path)}
        refused += [f"{module} imports {name}" for name in sorted(used - VIEWS_MAY_IMPORT)]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Name) and called.id in {
                "open",
                "input",
                "print",
                "__import__",
            }:
                refused.append(f"{module}:{called.lineno} calls {called.id}")
    assert refused == []
