# Two commands are all a reader needs: `make demo` and `make test`. Both make the virtual environment if
# there is none, install what they need into it, and run.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: help demo dev pictures test test-all coverage test-long test-cluster test-gateways test-compiled test-compiled-quick test-stalls test-strangers test-legacy test-pythons test-other-python tutorial-full tutorial-handout release check docs site bench bench-durable bench-others bench-gateways bench-spark explore explore-retained explore-transient explore-lossless fuzz fuzz-decoder fuzz-conversation fuzz-mqtt simulate soak \
  soak-learn mutants mutants-go mutants-python mutants-sample mutants-core clean
.DEFAULT_GOAL := help

help:
	@echo "make demo              watch a broker at work: echo, retention, compaction, lag, a restart, a year of real flights"
	@echo "make .venv/.installed-EXTRA  install an extra: access, bridge, cluster, flights, grpc, kafka,"
	@echo "                       learn, mqtt, record, spark, speed, stats, web"
	@echo
	@echo "make dev               everything for development, and what to do next"
	@echo "make check             lint, format check, types"
	@echo "make test              eight minutes on two cores: the same, and the tests that find most"
	@echo "make test-all          half an hour: every test but those of make soak"
	@echo "make coverage          ten minutes: branch coverage of the tests on asyncio, and whether it is within its limits"
	@echo "make fuzz              a quarter of an hour: a million inputs each for both decoders and a broker"
	@echo "make soak              half an hour: real processes killed, stopped, cut off and flooded; all planted bugs are caught"
	@echo "make docs              regenerate tables, drawings, hexdumps and code blocks"
	@echo "make site              the documents and the stage as a site of static files, in the folder site"
	@echo "make bench             an hour: side by side with the brokers installed here, into benchmarks/results"
	@echo "make clean             remove the virtual environment and all caches"
	@echo
	@echo "All others, with what each takes: CONTRIBUTING.md"

# A stamp file per extra: reinstalled only when pyproject.toml changed.
$(VENV)/.installed-%: pyproject.toml | $(VENV)/.pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

# Spark runs on Java: where there is none, one comes in a wheel.
$(VENV)/.java: $(VENV)/.installed-spark
	@$(BIN)/python -c 'from zaichik.apps.spark.session import find_java; find_java()' 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[java]'
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "zaichik needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Debian's python3 without python3-venv makes half of an environment, and says what is missing. Once that is
# installed, the same command makes the rest; what is there stays.
$(VENV)/.pip: | $(BIN)/python
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@touch $@

demo: $(VENV)/.installed-flights
	@test -e $(VENV)/.java || echo "installing Spark for the last step: half a gigabyte, only the first time"
	@$(MAKE) --silent $(VENV)/.java 2>/dev/null \
		|| echo "Spark or a Java for it cannot be installed now (why: make $(VENV)/.java). The demo goes without."
	@$(BIN)/zaichik demo

dev: $(VENV)/.installed-dev $(VENV)/.java
	@echo "All is in $(VENV). What to do next:"
	@echo "  . $(BIN)/activate"
	@echo "  git config blame.ignoreRevsFile .git-blame-ignore-revs   # git blame passes over commits that only format"
	@echo "  pytest tests/core/test_ring.py                           # one file of tests"
	@echo "  make check                                               # before each commit; make test, before it leaves"
	@echo "CONTRIBUTING.md says what belongs here, docs/understand/reading.md in which order to read the code."

# Of the tutorial, what is read in an editor; its steps and experiments have 80 columns (tutorial/ruff.toml).
WIDE := tutorial/tiny_broker.py tutorial/tools tutorial/solutions $(wildcard tutorial/*/exercises)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff check --config pyproject.toml --config 'line-length = 120' $(WIDE)
	$(BIN)/ruff format --check .
	$(BIN)/ruff format --check --config pyproject.toml --config 'line-length = 120' $(WIDE)
	$(BIN)/mypy
	$(BIN)/mypy hatch_build.py hatch_metadata.py tests/c_compiler.py tests/compiled.py tests/pythons.py tests/stalls.py
	$(BIN)/mypy $(filter-out tests/release/test_%,$(wildcard tests/release/*.py))
	$(BIN)/mypy examples/*.py tutorial/tiny_broker.py tutorial/tiny_log.py benchmarks/*.py benchmarks/peers/*.py
	MYPYPATH=tutorial/tools $(BIN)/mypy tutorial/tools/*.py
	MYPYPATH=docs/site/page/python $(BIN)/mypy -m docs.site.__main__ -m stage_here

# pytest rewrites the asserts of all tests when it first reads them, which takes longer than to collect them. In a new
# clone one process does it before there are several, each of which would.
$(VENV)/.asserts: export PYTHONDONTWRITEBYTECODE :=
$(VENV)/.asserts: | $(VENV)/.installed-dev
	@$(BIN)/python -m pytest --collect-only --quiet >/dev/null
	@touch $@

# Tests start hundreds of programs, each of which would compile the project anew if Python were told to keep nothing.
test: export PYTHONDONTWRITEBYTECODE :=
# How many processes there are is told by tests/conftest.py.
test: check $(VENV)/.java $(VENV)/.asserts
	$(BIN)/python -m pytest --numprocesses=auto

# Being measured makes Python twice as slow, so tests that run again what others have run are left out: on the second
# backend, in programs that do what was done in the tests' own process, with bugs that were planted. Those of hypothesis
# are, too, because what is covered must not depend on chance, and so is all that `make test` leaves out.
MEASURED := not unmeasured and not hypothesis and not long and not cluster and not gateways and not soak and not full

coverage: export PYTHONDONTWRITEBYTECODE :=
coverage: $(VENV)/.installed-dev $(VENV)/.java
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest --numprocesses=auto -m '$(MEASURED)'
	$(BIN)/coverage combine --quiet
	$(BIN)/python tests/coverage_limits.py

test-pythons: $(VENV)/.installed-test
	$(BIN)/python tests/pythons.py

# A part of the suite on the newest Python but this one, if there is one.
test-other-python: $(VENV)/.installed-test
	$(BIN)/python tests/pythons.py --quick

# What `make test` leaves out: tests/deferred.py lists it, or a mark where it is says so. And other examples of
# hypothesis, which are the same each time in `make test`.
LONG := (long or deferred) and not cluster and not gateways and not soak and not full

test-long: export PYTHONDONTWRITEBYTECODE :=
test-long: $(VENV)/.installed-dev $(VENV)/.java
	$(BIN)/python -m pytest --numprocesses=auto -m '$(LONG)'
	$(BIN)/python -m pytest --numprocesses=auto -m 'hypothesis and not cluster and not gateways and not soak and not full' --hypothesis-profile=other-examples

# Each test there is, once; but those that take minutes to find what is rare. They are `make soak`.
test-all: test test-long test-cluster test-gateways tutorial-full

test-cluster: $(VENV)/.installed-dev $(VENV)/.java
	$(BIN)/python -m pytest -m cluster tests/apps/spark tests/cli

# Front ends, with the programs of those who speak MQTT, Kafka's protocol and gRPC. What a machine lacks is skipped.
test-gateways: export PYTHONDONTWRITEBYTECODE :=
test-gateways: $(VENV)/.installed-dev $(VENV)/.java
	$(BIN)/python -m pytest --numprocesses=auto -m gateways tests/apps

test-compiled test-compiled-quick: export PYTHONDONTWRITEBYTECODE :=
test-compiled: $(VENV)/.installed-dev $(VENV)/.java
	$(BIN)/python tests/compiled.py

# A part of the suite: the tests of what is compiled.
test-compiled-quick: $(VENV)/.installed-dev $(VENV)/.java
	$(BIN)/python tests/compiled.py --quick

# As on a machine that is busy with something else: what waits for a time, and not for what must happen, falls over.
# Not the tests of Spark, as mostly its own processes would be stopped; nor those of the tutorial, whose programs are
# judged as a reader's are, within three seconds; nor those that look at which processes are stopped.
STALLED ?= tests --ignore=tests/apps/spark --ignore=tests/tutorial --ignore=tests/test_stalls.py

test-stalls: $(VENV)/.installed-dev
	$(BIN)/python tests/stalls.py $(BIN)/python -m pytest --numprocesses=2 $(STALLED)

# What needs root's rights, a namespace, or somebody else's program: tests/strangers.py lists it. What could not be tried
# on this machine is skipped, and says why.
test-strangers: $(VENV)/.installed-dev
	$(BIN)/python -m pytest --numprocesses=auto -m 'stranger and not soak'

# Says why its own examples were skipped, if they were. Building a stranger's programs is left to the person who has them.
test-legacy: $(VENV)/.installed-dev
	ORIGINAL='$(ORIGINAL)' $(BIN)/python -m pytest -rs tests/apps/legacy tests/cli/test_legacy_command.py

# Each chapter typed to the last command, by a robot that has nothing but the text; each step judged by all its stages.
tutorial-full: $(VENV)/.installed-dev $(VENV)/.java
	$(BIN)/python -m pytest --numprocesses=auto -m full tests/tutorial

# A copy of this clone for a class: without solutions, and without the programs of the chapters.
tutorial-handout: $(VENV)/.installed-learn
	$(BIN)/python tutorial/tools/handout.py handout

docs: $(VENV)/.installed-dev
	$(BIN)/cog -r -U protocol/README.md protocol/wireshark/zaichik.lua README.md docs/*.md docs/*/*.md
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. zaichik/apps/grpc/broker.proto
	$(BIN)/python -m tests.release.manual docs/man/zaichik.1
	$(BIN)/python tutorial/tools/pictures.py
	$(BIN)/python tutorial/tools/ring_picture.py
	$(BIN)/cog -r -U -p "$$(cat tutorial/tools/prologue)" tutorial/*/README.md
	@# Once more: a chapter's minutes are counted in the text that was just written.
	$(BIN)/cog -r -U -p "$$(cat tutorial/tools/prologue)" tutorial/*/README.md tutorial/README.md
	$(BIN)/python tutorial/tools/translated.py --refresh

# Into the folder site. With Node.js and npm, which bring Python for browsers, the stage is in it, too.
site: $(VENV)/.installed-site
	$(BIN)/python -m docs.site

# They show a busy broker, and are never the same twice: so not a part of `make docs`.
pictures: $(VENV)/.installed-dev
	$(BIN)/python tutorial/tools/screenshots.py

# Into dist, once every file has passed its checks.
release: $(VENV)/.installed-release
	$(BIN)/python -m tests.release

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks --out benchmarks/results

bench-durable: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.durable --out benchmarks/results/durable

# Figures that are printed, and copied by hand. Not here: benchmarks.cpu, bench-spark, and the start with 10 GB.
bench-others: $(VENV)/.installed-dev $(VENV)/.installed-bench
	$(BIN)/python benchmarks/access.py
	$(BIN)/python benchmarks/views.py --browser
	$(BIN)/python benchmarks/flight.py
	$(BIN)/python benchmarks/explain.py
	$(BIN)/python benchmarks/legacy.py
	$(BIN)/python benchmarks/reliability.py --runs 3 --only connections descriptors drain cuts
	$(BIN)/python -m benchmarks.isolation --rounds 3
	$(BIN)/python -m benchmarks.bound
	$(BIN)/python -m benchmarks.cleaning

# Front ends, and what lies beyond one machine: beside Mosquitto and Kafka, where they are installed.
bench-gateways: $(VENV)/.installed-dev $(VENV)/.installed-bench $(VENV)/.java
	$(BIN)/python benchmarks/mqtt.py
	$(BIN)/python -m benchmarks.mqtt_codec
	$(BIN)/python benchmarks/acked.py
	$(BIN)/python benchmarks/bridge.py
	$(BIN)/python -m benchmarks.cluster
	$(BIN)/python -m benchmarks.cluster_away

bench-spark: $(VENV)/.installed-bench $(VENV)/.java
	$(BIN)/python benchmarks/spark.py

# Other inputs each time; what is found is shown with the command that repeats it.
fuzz: $(VENV)/.installed-dev
	@$(MAKE) --silent --no-print-directory -j2 fuzz-decoder fuzz-conversation fuzz-mqtt

fuzz-decoder fuzz-conversation fuzz-mqtt: fuzz-%:
	@$(BIN)/python -m tests.fuzz $* --inputs 1000000

simulate: $(VENV)/.installed-dev
	$(BIN)/python -m tests.simulation --seeds 1000

# Every short story on the core; longer ones: STEPS=6.
STEPS ?= 5

explore: $(VENV)/.installed-dev
	@$(MAKE) --silent --no-print-directory -j2 explore-retained explore-transient explore-lossless

explore-retained explore-transient explore-lossless: explore-%:
	@$(BIN)/python -m tests.exploring --kind $* --steps $(STEPS)

# All planted bugs, of which the suite has a sample; and what the short tests of tests/chaos do for a second, for minutes:
# no test is taken for one that hangs.
SOAK := -o faulthandler_timeout=0

soak: $(VENV)/.installed-dev
	$(BIN)/python -m pytest tests/core/test_planted_bugs.py $(SOAK) -m "soak or not soak"
	$(BIN)/python -m pytest tests/chaos tests/core/report tests/storage tests/storage/repair tests/test_examples.py $(SOAK) -m soak

# Half an hour, both cores: what the short tests of tests/learn do once and quickly, again and again.
soak-learn: $(VENV)/.installed-dev
	$(BIN)/pytest tests/learn $(SOAK) -m soak

# Bugs planted in brokers of other hands: what a check has found once, it must always find.
mutants: mutants-go mutants-python

mutants-go mutants-python: mutants-%: $(VENV)/.installed-dev
	$(BIN)/python -m tests.learn.mutation --broker $* --jobs 2

# A few of them, before a release.
mutants-sample: $(VENV)/.installed-dev
	$(BIN)/python -m tests.learn.mutation --broker go --expected yes --sample 10 --jobs 2
	$(BIN)/python -m tests.learn.mutation --broker python --expected yes --sample 10 --jobs 2

# Small edits of the core, chosen at random, of which tests should notice nearly all. Others: SEED=2, or SAMPLE=1000.
SAMPLE ?= 200
SEED   ?= 1

mutants-core: $(VENV)/.installed-dev
	$(BIN)/python tests/mutating.py --sample $(SAMPLE) --seed $(SEED)

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage* build dist site
