# Two commands for a newcomer: make demo, make test. Both make what they need first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO_READY := $(VENV)/.ready-demo
READY := $(VENV)/.ready
BENCH_READY := $(VENV)/.ready-bench
DOCS_READY := $(VENV)/.ready-docs
RELEASE_READY := $(VENV)/.ready-release
SAIL_READY := $(VENV)/.ready-sail
# Sail refuses the pyspark of the other tests. Its own client, without jars, precedes it on PYTHONPATH.
SAIL := $(abspath $(VENV))/sail
# Workers of pytest, each with a Spark of its own. They share a cluster, and the tests of each other cluster run on one worker.
# The crash of a worker ends the run: with a new worker, xdist may wait for ever.
TEST_PROCESSES ?= 3
PYTEST := $(BIN)/pytest --numprocesses $(TEST_PROCESSES) --dist loadgroup --no-loadscope-reorder --max-worker-restart 0
SAIL_PYTEST := PYTHONPATH=$(SAIL) $(BIN)/pytest --zkafka-engine sail
# The promises of batches are the same on both engines.
SAIL_TESTS := $(addprefix tests/integration/,test_sail.py test_read.py test_write.py test_views.py test_formats.py \
	test_header_bytes.py test_log_bounds.py test_relative_starts.py test_refused_reads.py test_consumer_group.py \
	test_pushdown.py)

# Spark's workers run "python3" from the PATH unless they are told otherwise.
export PYSPARK_PYTHON := $(abspath $(BIN)/python)
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
export SPARK_CONF_DIR := $(abspath spark-conf)

# Servers keep their data in memory where there is room: a disk that stalls for seconds makes ZooKeeper's sessions expire.
ifndef ZKAFKA_CLUSTER_DATA
ifeq ($(shell test "$$(df -Pm /dev/shm 2>/dev/null | awk 'NR == 2 {print $$4}')" -gt 8192 2>/dev/null && echo yes),yes)
export ZKAFKA_CLUSTER_DATA := /dev/shm
endif
endif

.PHONY: demo test test-all test-sail mutants matrix versions simulate soak soak-planner use bench check audit docs site notebooks format dist clean

demo: $(DEMO_READY)
	$(BIN)/zkafka demo

# What a change can break in everyday work, in 12 to 25 minutes. CLUSTER=default uses the cluster that "zkafka cluster up"
# started, instead of starting one.
test: $(READY) $(SAIL_READY)
	$(PYTEST) $(if $(CLUSTER),--zkafka-cluster $(CLUSTER)) $(PYTEST_ARGS)
	$(SAIL_PYTEST) $(if $(CLUSTER),--zkafka-cluster $(CLUSTER)) $(PYTEST_ARGS) $(firstword $(SAIL_TESTS))

# The tests of batches on Sail, an engine without a JVM.
test-sail: $(READY) $(SAIL_READY)
	$(SAIL_PYTEST) -m "long or not long" --zkafka-require-servers $(PYTEST_ARGS) $(SAIL_TESTS)

# Every test there is, also of the wheels, the site and Kerberos, with faults at random chosen by SEED. SHARD=2/6 runs the second
# of six parts, which are balanced to take less than 25 minutes each; RECORD=1 records the durations that balance them. Needs
# Python 3.11 or later, as the site does.
test-all: $(RELEASE_READY) $(DOCS_READY)
	$(PYTEST) -m "long or not long" --zkafka-require-servers $(if $(SHARD),--zkafka-shard $(SHARD)) \
		$(if $(SEED),--zkafka-seed $(SEED)) $(if $(RECORD),--zkafka-record) $(PYTEST_ARGS)
	$(if $(filter-out 1/%,$(SHARD)),,$(MAKE) test-sail)
	$(MAKE) mutants

# Small faults in the pure modules, one at a time: the tests find them. MODULES="pyspark_zkafka.model.planning" for some modules,
# SHARD=2/6 for a sixth of them.
mutants: $(RELEASE_READY)
	$(BIN)/python -m tests.mutants $(if $(SHARD),--shard $(SHARD)) $(MODULES)

# Every version of Python and pyspark. A Python that this machine lacks is listed as skipped. PYENV_VERSION puts all of
# pyenv's versions on the PATH. NOX_ARGS="-s unit" leaves out the tests with servers, "--list" lists the sessions; SHARD=1/4
# runs a part of each session.
matrix: $(RELEASE_READY)
	PYENV_VERSION=$$(pyenv versions --bare 2>/dev/null | paste -sd:) $(BIN)/nox $(NOX_ARGS) $(if $(SHARD),-- --zkafka-shard $(SHARD))

# Reads, writes, groups and exactly-once writes on each version of the brokers, with each engine. The first run fetches older
# pysparks and Kafkas. VERSIONS_ARGS="--kafka 4.3.1 --engine sail" for some, "--file versions.json" to add to an earlier run.
versions: $(READY) $(SAIL_READY)
	$(BIN)/python -m tests.versions $(VERSIONS_ARGS)

# SCHEDULES random schedules of each kind of group, by name and by pattern, and of writes. A failing one is shortened.
simulate: $(READY)
	$(BIN)/python -m tests.simulation $(or $(SCHEDULES),10000)

# Workloads and faults at random for MINUTES, chosen by SEED; then every record is accounted for. Reports are in soak/.
# SOAK_ARGS=--each takes one kind of fault after the other. APPEND=FOLDER keeps the earlier runs in a folder, and reports on all of them.
soak: $(READY) $(SAIL_READY)
	$(BIN)/python -m tests.faults.harness --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(if $(APPEND),--append --folder $(APPEND)) $(SOAK_ARGS)

# Days of a planner's work: BATCHES micro-batches with each kind of group. Its resources must not grow. Takes half an hour.
soak-planner: $(READY)
	$(BIN)/python -m tests.faults.long_planning $(or $(BATCHES),100000)

# SCHEDULES random schedules of each kind, from seed FIRST on, of what users change between runs; each record is accounted for.
use: $(READY)
	$(BIN)/python -m tests.faults.use $(or $(SCHEDULES),100) --first $(or $(FIRST),0)

# All parts take some hours on an idle machine. BENCH_ARGS=--quick for the most important figures in 15 minutes, BENCH_ARGS=writes for
# one part in less than half an hour; docs/benchmarks.md lists the parts, and says how to make the tables of the documentation.
bench: $(BENCH_READY) $(SAIL_READY)
	$(BIN)/python -m benchmarks all $(BENCH_ARGS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Known vulnerabilities of what is installed; needs the network, and is run before each release.
audit: $(RELEASE_READY)
	$(BIN)/pip-audit --local --skip-editable

docs: $(READY)
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/licences.py
	$(BIN)/python docs/pictures.py

# Executes the notebooks, and stores them with their outputs; NOTEBOOKS="batch.ipynb" for some.
notebooks: $(READY)
	$(BIN)/python -m tests.notebooks $(NOTEBOOKS)

# docs/ as HTML in site/, with warnings as errors; open site/index.html. Needs Python 3.11 or later.
site: $(DOCS_READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	$(BIN)/python docs/check_site.py site

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What is published, in dist/.
dist: $(RELEASE_READY)
	PYTHON=$(abspath $(BIN)/python) .ci/dist
	PYTHON=$(abspath $(BIN)/python) .ci/try_dist

clean:
	rm -rf $(VENV) .nox build dist site soak *.egg-info spark-warehouse artifacts

# The package alone.
$(DEMO_READY): setup.cfg pyproject.toml setup.py $(wildcard pyspark_zkafka/records/native/*.[ch])
	@echo "Installing the package and PySpark into $(VENV): about 0.8 GB, a minute or two"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	touch $(DEMO_READY)

# With what tests and checks need.
$(READY): $(DEMO_READY)
	@echo "Installing the tools of tests and checks into $(VENV): about 0.5 GB more, a minute or two"
	$(BIN)/python -m pip install --quiet --editable '.[test,check,connect]'
	touch $(READY)

$(SAIL_READY): $(READY)
	$(BIN)/python -m pip install --quiet --no-deps --target $(SAIL) --upgrade pysail==0.7.2 pyspark-client==4.2.0
	touch $(SAIL_READY)

$(BENCH_READY): $(READY)
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	touch $(BENCH_READY)

$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $(DOCS_READY)

$(RELEASE_READY): $(READY)
	$(BIN)/python -m pip install --quiet --editable '.[release]'
	touch $(RELEASE_READY)
