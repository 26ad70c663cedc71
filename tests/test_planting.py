"""Planting finds its place by name and its code by syntax; every bug can still be planted."""

import ast
import inspect
from pathlib import Path
from textwrap import dedent

import pytest
from exploring.planted_slips import SLIPS as EXPLORED
from learn_mutants import MUTANTS as TINY_MUTANTS
from mutants_killed import MUTANTS as KILLED_MUTANTS
from mutants_shared import MUTANTS as SHARED_MUTANTS
from mutants_shipped import MUTANTS as SHIPPED_MUTANTS
from planted_bridge_slips import BRIDGE_SLIPS
from planted_cleaning_slips import CLEANING_SLIPS
from planted_cluster_slips import CLUSTER_SLIPS
from planted_codec_slips import CODEC_SLIPS
from planted_commit_slips import COMMIT_SLIPS
from planted_durable_slips import DURABLE_SLIPS
from planted_explanations import WRONG
from planted_following_slips import FOLLOWING_SLIPS
from planted_gateway_slips import GATEWAY_SLIPS
from planted_grpc_slips import GRPC_SLIPS
from planted_http_slips import HTTP_SLIPS
from planted_kafka_slips import KAFKA_SLIPS
from planted_pattern_slips import PATTERN_SLIPS
from planted_promises import BUGS
from planted_queue_bugs import MODEL, WORLD
from planted_replication_slips import REPLICATION_SLIPS
from planted_shared_slips import SHARED_SLIPS
from planted_slips import SLIPS
from planted_table_slips import TABLE_SLIPS
from planted_user_slips import USER_SLIPS
from planting import CannotPlant, find, planted, planted_in
from simulation import planted_bugs, planted_client_bugs, planted_disk_bugs, planted_share_bugs

pytestmark = pytest.mark.unmeasured

# Their tables are beside the tests of the apps.
APP_SLIPS = [
    *BRIDGE_SLIPS,
    *CLUSTER_SLIPS,
    *CODEC_SLIPS,
    *GRPC_SLIPS,
    *HTTP_SLIPS,
    *KAFKA_SLIPS,
    *GATEWAY_SLIPS,
    *USER_SLIPS,
]

TESTS = Path(__file__).parent


@pytest.fixture
def package(tmp_path):
    """A function that makes a package of these modules, and returns what planting is to search."""

    def make(**modules):
        folder = tmp_path / "tiny"
        (folder / "inner").mkdir(parents=True)
        for name, text in modules.items():
            path = folder / f"{name}.py"
            path.write_text(dedent(text), encoding="utf-8")
        return (folder,)

    return make


def wrong_text(packages, where, right, wrong, nth=0):
    return planted(where, right, wrong, nth, packages)[1]


# -- the place -----------------------------------------------------------------------------------


PLACES = """
    from zlib import crc32

    MOST: int = 3
    LEFT, RIGHT = 1, 2

    class Outer:
        LIMIT = 5

        class Inner:
            def get(self):
                return 1

        def get(self):
            def ask():
                return 2

            return ask()

    try:
        import fcntl
    except ImportError:
        def lock():
            return 3

    async def serve():
        return 4
"""


@pytest.mark.parametrize(
    ("where", "right", "line"),
    [
        ("Outer.Inner.get", "return 1", "            return 9"),
        ("Outer.get.ask", "return 2", "            return 9"),
        ("lock", "return 3", "        return 9"),
        ("serve", "return 4", "    return 9"),
        ("places:serve", "return 4", "    return 9"),
        ("tiny.places:serve", "return 4", "    return 9"),
    ],
)
def test_a_definition_is_found_wherever_it_is(where, right, line, package):
    assert line in wrong_text(package(places=PLACES), where, right, "return 9").splitlines()


@pytest.mark.parametrize(
    ("where", "right", "wrong"),
    [
        ("MOST", "MOST: int = 3", "MOST = 4"),
        ("Outer.LIMIT", "5", "(6)"),
        ("RIGHT", "LEFT, RIGHT = 1, 2", "LEFT = RIGHT = 1"),
        ("places:crc32", "from zlib import crc32", "crc32 = hash"),
    ],
)
def test_a_constant_or_an_import_is_a_place_too(where, right, wrong, package):
    assert wrong in wrong_text(package(places=PLACES), where, right, wrong)


def test_a_place_has_its_file_and_its_module(package):
    modules = {"inner/__init__": "def one(): return 1\n", "inner/two": "def two(): return 2\n"}
    (folder,) = package(**modules)
    found = find("one", (folder,)), find("two", (folder,))
    assert [(place.path.name, place.module) for place in found] == [
        ("__init__.py", "tiny.inner"),
        ("two.py", "tiny.inner.two"),
    ]


def test_a_name_that_is_defined_nowhere_is_refused_with_names_like_it(package):
    packages = package(places=PLACES)
    with pytest.raises(CannotPlant, match=r"Outer\.got is defined nowhere in tiny"):
        find("Outer.got", packages)
    with pytest.raises(CannotPlant, match=r"Similar names: .*Outer\.Inner\.get"):
        find("Inner.get", packages)


def test_an_imported_name_is_no_place_without_its_module(package):
    with pytest.raises(CannotPlant, match="crc32 is defined nowhere"):
        find("crc32", package(places=PLACES))


def test_an_ambiguous_name_is_refused_until_the_module_is_named(package):
    packages = package(one="LIMIT = 1", two="LIMIT = 1", **{"inner/two": "LIMIT = 1"})
    with pytest.raises(CannotPlant, match=r"defined 3 times: .*tiny\.one:LIMIT \(line 1\)"):
        find("LIMIT", packages)
    with pytest.raises(CannotPlant, match="defined 2 times"):
        find("two:LIMIT", packages)
    assert find("inner.two:LIMIT", packages).module == "tiny.inner.two"
    assert find("one:LIMIT", packages).module == "tiny.one"


def test_a_name_that_one_module_defines_twice_is_refused(package):
    text = "class Two:\n    def get(self): return 1\n    def get(self): return 2\n"
    with pytest.raises(CannotPlant, match=r"Two\.get is defined 2 times"):
        find("Two.get", package(one=text))


# -- the code ------------------------------------------------------------------------------------


FOUND = """
    # Größe
    def count(a, b, c):
        while a and (  # the first
                b) == 'ö' and c:
            one = call(a, k=(b))  # kept
        return f"{a + b}", a + b
"""


@pytest.mark.parametrize(
    ("right", "wrong", "result"),
    [
        ("b == 'ö'", "b", "    while a and (b) and c:"),
        ('b == "ö"', "b", "    while a and (b) and c:"),
        ("call(a, k=b)", "a or b", "        one = (a or b)  # kept"),
        ("one = call(\n    a,\n    k=b,\n)", "pass", "        pass  # kept"),
        ("c", "d", "            b) == 'ö' and (d):"),
        ("a + b", "a", '    return f"{a + b}", (a)'),
        ('a and b == "ö"', "a", "    while (a and c):"),
        ('b == "ö" and c', "b and not c", "    while (a and b and (not c)):"),
        ('b == "ö" and c', "b or c", "    while (a and (b or c)):"),
        ('a and b == "ö" and c', "False", "    while (False):"),
    ],
)
def test_code_is_found_however_it_is_written(right, wrong, result, package):
    """What is in an f-string is not looked at, and columns are right after letters of two bytes."""
    assert result in wrong_text(package(one=FOUND), "count", right, wrong).splitlines()


def test_an_operator_binds_what_it_bound_before(package):
    packages = package(one="def twice(a, b):\n    return a * b\n")
    text = wrong_text(packages, "twice", "b", "a + b")
    expected = "def twice(a, b):\n    return a * (a + b)\n"
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(expected))


def test_all_other_lines_stay_as_they_are(package):
    text = "A = 1  # why\n\n\ndef get( a ):\n    return (a)\n\n\nB = [ 1 ]\n"
    result = wrong_text(package(one=text), "get", "return a", "return 2")
    assert result == text.replace("return (a)", "return 2")


STATEMENTS = """
    class Reader:
        @staticmethod
        @decorated(1)
        async def read(stream):
            async with stream:
                first = await stream.one()
                second = await stream.two()
            return first
"""


def test_several_statements_are_as_deep_as_those_they_replace(package):
    right = """
        first = await stream.one()
        second = await stream.two()
    """
    wrong = """
        if stream:
            first = 1
        second = 2
    """
    text = wrong_text(package(one=STATEMENTS), "Reader.read", right, wrong)
    expected = (
        "        async with stream:\n"
        "            if stream:\n"
        "                first = 1\n"
        "            second = 2\n"
        "        return first\n"
    )
    assert expected in text


def test_a_definition_can_be_replaced_with_its_decorators(package):
    right = dedent(STATEMENTS).partition("class Reader:\n")[2]
    wrong = "def read(stream):\n    return 1"
    text = wrong_text(package(one=STATEMENTS), "Reader.read", right, wrong)
    assert text.strip() == "class Reader:\n    def read(stream):\n        return 1"


def test_decorators_are_part_of_their_definition(package):
    assert "@decorated((2))" in wrong_text(package(one=STATEMENTS), "Reader.read", "1", "2")


def test_statements_are_not_found_across_blocks(package):
    with pytest.raises(CannotPlant, match="is there 0 times"):
        wrong_text(
            package(one=STATEMENTS),
            "Reader.read",
            "second = await stream.two()\nreturn first",
            "pass",
        )


def test_code_that_is_gone_is_refused_with_what_is_there_now(package):
    text = "import os\n\n\ndef get(a):\n    return a + 2\n\n\ndef other():\n    return 1\n"
    packages = package(one=text)
    with pytest.raises(CannotPlant) as refused:
        wrong_text(packages, "get", "a + 1", "a")
    told = str(refused.value)
    assert "one.py:4): should be there once, is there 0 times:\na + 1\n" in told
    assert told.endswith("It is now:\ndef get(a):\n    return a + 2")


def test_code_that_is_there_several_times_is_refused_unless_one_of_them_is_meant(package):
    packages = package(one="def get(a):\n    a = call(a)\n    b = call(a)\n    return a, b\n")
    with pytest.raises(CannotPlant, match="should be there once, is there 2 times"):
        wrong_text(packages, "get", "call(a)", "1")
    assert "    a = (1)\n    b = call(a)" in wrong_text(packages, "get", "call(a)", "1", nth=1)
    assert "    a = call(a)\n    b = (1)" in wrong_text(packages, "get", "call(a)", "1", nth=2)
    with pytest.raises(CannotPlant, match="at least 3 times, is there 2"):
        wrong_text(packages, "get", "call(a)", "1", nth=3)


def test_a_bug_can_be_planted_in_one_text():
    text = "def get(a):\n    return a\n\n\ndef other(a):\n    return a\n"
    assert planted_in(text, "other", "a", "1") == text[:-2] + "(1)\n"
    with pytest.raises(CannotPlant, match="got is defined 0 times"):
        planted_in(text, "got", "a", "1")
    with pytest.raises(CannotPlant, match=r"get \(line 1\): should be there once"):
        planted_in(text, "get", "b", "1")


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        ("a + 1", "(a  +  1)", "the same as what is right"),
        ("return a + 1", "return (a + 1)  # so", "the same as what is right"),
        ("a + 1", "", "this is no code"),
        ("", "a + 1", "this is no code"),
        ("if a:", "if True:", "no expression, and no statements"),
    ],
)
def test_what_would_plant_nothing_is_refused(right, wrong, problem, package):
    with pytest.raises(CannotPlant, match=problem):
        wrong_text(package(one="def get(a):\n    return a + 1\n"), "get", right, wrong)


# -- the bugs that are kept ----------------------------------------------------------------------


def test_every_bug_that_is_kept_can_still_be_planted():
    """A refactoring breaks it here, within a second, and not only where all bugs are planted."""
    offenders = []
    slips = [
        *SLIPS,
        *DURABLE_SLIPS,
        *TABLE_SLIPS,
        *CLEANING_SLIPS,
        *FOLLOWING_SLIPS,
        *PATTERN_SLIPS,
        *SHARED_SLIPS,
        *COMMIT_SLIPS,
        *REPLICATION_SLIPS,
        *APP_SLIPS,
    ]
    mutants = [*SHIPPED_MUTANTS, *SHARED_MUTANTS, *KILLED_MUTANTS]
    for bug in [*slips, *MODEL, *WORLD, *EXPLORED, *mutants]:
        try:
            bug.planted()
        except CannotPlant as problem:
            offenders.append(f"{bug.name}: {problem}")
    for mutant in TINY_MUTANTS:
        try:
            mutant.source()
        except CannotPlant as problem:
            offenders.append(f"{mutant.name}: {problem}")
    assert not offenders, "\n\n".join(offenders)


class Planter(pytest.MonkeyPatch):
    """Notes which functions it is given that cannot be called as those they replace."""

    def __init__(self):
        super().__init__()
        self.uncallable = []

    def setattr(self, target, name, *value, **options):
        real = getattr(target, name, None) if value else None
        super().setattr(target, name, *value, **options)
        if inspect.isfunction(real) and inspect.isfunction(value[0]):
            problem = why_uncallable(value[0], real)
            if problem:
                self.uncallable.append(f"{real.__qualname__}: {problem}")


def why_uncallable(function, real):
    """Why `function` cannot stand in for `real`, or "" if each call of that can be one of it.

    By position with as few arguments as are needed and with all there are, and all by name.
    """
    wanted = inspect.signature(real).parameters.values()
    placed = [each for each in wanted if each.kind is each.POSITIONAL_OR_KEYWORD]
    by_name = {each.name: None for each in wanted if each.kind is each.KEYWORD_ONLY}
    fewest = [each for each in placed if each.default is each.empty]
    try:
        inspect.signature(function).bind(*fewest, **by_name)
        inspect.signature(function).bind(*placed, **by_name)
    except TypeError as problem:
        return str(problem)
    return ""


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda self, one, two=2: None, ""),
        (lambda self, *others: None, ""),
        (lambda self, other, another=None: None, ""),
        (lambda self, one, two: None, "missing a required argument: 'two'"),
        (lambda self, one: None, "too many positional arguments"),
    ],
)
def test_what_replaces_a_method_can_be_called_as_the_method(function, problem):
    def real(self, one, two=2):
        """Never called."""

    assert why_uncallable(function, real) == problem


@pytest.mark.usefixtures("patchable")
def test_every_bug_that_replaces_a_method_finds_it_and_can_be_called_as_it():
    """Only `make soak` and `make test-long` run with all of them."""
    tables = (
        planted_bugs.BUGS,
        planted_client_bugs.BUGS,
        planted_disk_bugs.BUGS,
        planted_share_bugs.BUGS,
    )
    plants = [*BUGS.items(), *WRONG.items()]
    plants += [(name, plant) for table in tables for name, (plant, _) in table.items()]
    offenders = []
    for name, plant in plants:
        planter = Planter()
        try:
            plant(planter)
        except AttributeError as problem:
            offenders.append(f"{name}: {problem}")
        finally:
            planter.undo()
        offenders += [f"{name}: {problem}" for problem in planter.uncallable]
    assert not offenders, "\n".join(offenders)


def test_every_test_that_must_find_a_slip_exists():
    offenders = []
    for slip in [
        *SLIPS,
        *DURABLE_SLIPS,
        *FOLLOWING_SLIPS,
        *PATTERN_SLIPS,
        *SHARED_SLIPS,
        *COMMIT_SLIPS,
        *REPLICATION_SLIPS,
        *APP_SLIPS,
    ]:
        file, _, name = slip.test.partition("::")
        path = TESTS / file
        if not path.is_file() or f"def {name}" not in path.read_text(encoding="utf-8"):
            offenders.append(f"{slip.name}: {slip.test}")
    assert not offenders, "\n".join(offenders)
