# Two commands are all a reader needs: `make demo` and `make test`. Both make the virtual environment if
# there is none, install what they need into it, and run.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: help demo pictures test coverage test-long test-cluster test-compiled test-legacy test-pythons test-other-python tutorial-full tutorial-handout release check docs bench bench-durable bench-others bench-spark fuzz fuzz-decoder fuzz-conversation simulate soak \
  soak-learn mutants mutants-go mutants-python mutants-sample clean
.DEFAULT_GOAL := help

help:
	@echo "make demo              watch a broker at work: echo, retention, compaction, lag, a restart, a year of real flights"
	@echo "make test              lint, format check, types, tests"
	@echo "make check             the fast half of it: lint, format check, types"
	@echo "make .venv/.installed-EXTRA  install an extra: access, flights, learn, record, spark, speed, stats, web"
	@echo "make .venv/.java       install Spark, and a Java where there is none"
	@echo "make clean             remove the virtual environment and all caches"
	@echo
	@echo "More tests:"
	@echo "make coverage          five minutes: branch coverage of the tests on asyncio, and whether it is within its limits"
	@echo "make test-long         five minutes: more of what shorter tests show: planted bugs, simulated worlds, benchmarks"
	@echo "make test-cluster      Spark in processes of its own: zaichik stats on a cluster of three and on S3, and the whole demo"
	@echo "make test-compiled     ten minutes: the tests once more, on zaichik compiled by mypyc; needs a C compiler"
	@echo "make test-pythons      a quarter of an hour each: the tests on every Python from 3.11 to 3.14 that is installed"
	@echo "make test-legacy       clients of the original of 2020; with ORIGINAL=/path/to/its/clone its own examples, if built"
	@echo "make fuzz              a quarter of an hour, both cores: a million inputs for the decoder, a million for a broker"
	@echo "make simulate          the broker in a thousand simulated worlds (others: python -m tests.simulation --help)"
	@echo "make soak              half an hour: real processes killed, stopped, cut off and flooded; all planted bugs are caught"
	@echo "make soak-learn        half an hour: the stages against wrong brokers, and on a busy machine"
	@echo "make mutants           half an hour a broker: the stages find every bug planted in brokers in Go and in Python"
	@echo "make tutorial-full     ten minutes: every command of the tutorial, and every stage of every step"
	@echo
	@echo "Documents and figures:"
	@echo "make docs              regenerate tables, drawings, hexdumps and code blocks"
	@echo "make pictures          take the screenshots in docs/pictures again"
	@echo "make tutorial-handout  the project without the tutorial's solutions, in the folder handout: for a class"
	@echo "make release           ten minutes: build the wheels and the source archive into dist, and check each where it is installed"
	@echo "                       (a part of it: .venv/bin/python -m tests.release --help)"
	@echo "make bench             half an hour: side by side with the brokers installed here, into benchmarks/results"
	@echo "                       (less of it: .venv/bin/python -m benchmarks --help)"
	@echo "make bench-durable     a quarter of an hour: durable topics beside other brokers' files, into benchmarks/results/durable"
	@echo "make bench-others      forty minutes: what attacks, faults, access, views, recording and old clients cost"
	@echo "make bench-spark       topics and windows in Spark, beside Parquet, DuckDB and Polars"

# A stamp file per extra: reinstalled only when pyproject.toml changed.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

# Spark runs on Java: where there is none, one comes in a wheel.
$(VENV)/.java: $(VENV)/.installed-spark
	@$(BIN)/python -c 'from zaichik.spark.session import find_java; find_java()' 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[java]'
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "zaichik needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

demo: $(VENV)/.installed-flights
	@test -e $(VENV)/.java || echo "installing Spark for the last step: half a gigabyte, only the first time"
	@$(MAKE) --silent $(VENV)/.java 2>/dev/null \
		|| echo "Spark or a Java for it cannot be installed now (why: make $(VENV)/.java). The demo goes without."
	@$(BIN)/zaichik demo

# Of the tutorial, what is read in an editor; its steps and experiments have 80 columns (tutorial/ruff.toml).
WIDE := tutorial/tiny_broker.py tutorial/tools tutorial/solutions $(wildcard tutorial/*/exercises)

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff check --config pyproject.toml $(WIDE)
	$(BIN)/ruff format --check .
	$(BIN)/ruff format --check --config pyproject.toml $(WIDE)
	$(BIN)/mypy
	$(BIN)/mypy hatch_build.py tests/compiled.py tests/pythons.py
	$(BIN)/mypy $(filter-out tests/release/test_%,$(wildcard tests/release/*.py))
	$(BIN)/mypy examples/*.py tutorial/tiny_broker.py tutorial/tiny_log.py benchmarks/*.py benchmarks/peers/*.py
	MYPYPATH=tutorial/tools $(BIN)/mypy tutorial/tools/*.py

# Tests start hundreds of programs, each of which would compile the project anew if Python were told to keep nothing.
test: export PYTHONDONTWRITEBYTECODE :=
# How many processes there are is told by tests/conftest.py.
test: check $(VENV)/.java
	$(BIN)/python -m pytest --numprocesses=auto

# Being measured makes Python twice as slow, so tests that run again what others have run are left out: on the second
# backend, in programs that do what was done in the tests' own process, with bugs that were planted. Those of hypothesis
# are, too, because what is covered must not depend on chance, and so is all that `make test` leaves out.
MEASURED := not unmeasured and not hypothesis and not long and not cluster and not soak and not full

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

test-long: export PYTHONDONTWRITEBYTECODE :=
test-long: $(VENV)/.installed-dev
	$(BIN)/python -m pytest --numprocesses=auto -m long

test-cluster: $(VENV)/.installed-dev $(VENV)/.java
	$(BIN)/python -m pytest -m cluster tests/spark tests/console

test-compiled: export PYTHONDONTWRITEBYTECODE :=
test-compiled: $(VENV)/.installed-dev $(VENV)/.java
	$(BIN)/python tests/compiled.py

# Says why its own examples were skipped, if they were. Building a stranger's programs is left to the person who has them.
test-legacy: $(VENV)/.installed-dev
	ORIGINAL='$(ORIGINAL)' $(BIN)/python -m pytest -rs tests/legacy tests/console/test_legacy_command.py

# Each chapter typed to the last command, by a robot that has nothing but the text; each step judged by all its stages.
tutorial-full: $(VENV)/.installed-dev $(VENV)/.java
	$(BIN)/python -m pytest --numprocesses=auto -m full tests/tutorial

# A copy of this clone for a class: without solutions, and without the programs of the chapters.
tutorial-handout: $(VENV)/.installed-learn
	$(BIN)/python tutorial/tools/handout.py handout

docs: $(VENV)/.installed-dev
	$(BIN)/cog -r -U protocol/README.md protocol/wireshark/zaichik.lua README.md docs/*.md
	$(BIN)/python tutorial/tools/pictures.py
	$(BIN)/python tutorial/tools/ring_picture.py
	$(BIN)/cog -r -U -p "$$(cat tutorial/tools/prologue)" tutorial/README.md tutorial/*/README.md
	$(BIN)/python tutorial/tools/translated.py --refresh

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

bench-spark: $(VENV)/.installed-bench $(VENV)/.java
	$(BIN)/python benchmarks/spark.py

# Other inputs each time; what is found is shown with the command that repeats it.
fuzz: $(VENV)/.installed-dev
	@$(MAKE) --silent --no-print-directory -j2 fuzz-decoder fuzz-conversation

fuzz-decoder fuzz-conversation: fuzz-%:
	@$(BIN)/python -m tests.fuzz $* --inputs 1000000

simulate: $(VENV)/.installed-dev
	$(BIN)/python -m tests.simulation --seeds 1000

# All planted bugs, of which the suite has a sample; and what the short tests of tests/chaos do for a second, for minutes.
soak: $(VENV)/.installed-dev
	$(BIN)/python -m pytest tests/broker/test_planted_bugs.py -m "soak or not soak"
	$(BIN)/python -m pytest tests/chaos tests/explain tests/log tests/repair tests/test_examples.py -m soak

# Half an hour, both cores: what the short tests of tests/learn do once and quickly, again and again.
soak-learn: $(VENV)/.installed-dev
	$(BIN)/pytest tests/learn -m soak

# Bugs planted in brokers of other hands: what a check has found once, it must always find.
mutants: mutants-go mutants-python

mutants-go mutants-python: mutants-%: $(VENV)/.installed-dev
	$(BIN)/python -m tests.learn.mutation --broker $* --jobs 2

# A few of them, for continuous integration.
mutants-sample: $(VENV)/.installed-dev
	$(BIN)/python -m tests.learn.mutation --broker go --expected yes --sample 10 --jobs 2
	$(BIN)/python -m tests.learn.mutation --broker python --expected yes --sample 10 --jobs 2

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage* build dist
