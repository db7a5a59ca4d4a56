# Two commands matter: `make demo` and `make test`. Each sets up what is missing.

PYTHON ?=
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DAY    := 2019-11-26

# HDFS is left out here, since its tests need a server (make test-storage).
COVERED := ctr_samples/shards/*,ctr_samples/codec/frames.py,ctr_samples/codec/streams.py,ctr_samples/codec/deflate.py,ctr_samples/records/read.py,ctr_samples/records/write.py

# Each process of each suite would compile the tests and the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup java demo simulate test test-versions test-oldest test-thorough test-slow test-gate test-storage test-sources test-faults test-wheel test-packed test-recipes test-nightly mutants coverage bench bench-compare fuzz lint house format docs docs-site lock clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 24

setup: $(READY) java  ## create .venv, check for Java

$(READY): pyproject.toml constraints.txt tools/make-venv
	@tools/make-venv $(PYTHON)
	@touch $@

java:
	@tools/ensure-java

demo: setup  ## real logs to TFRecord shards to a trained model
	@tools/demo $(DAY)

simulate: setup  ## simulated logs, then their samples
	@tools/simulate 2019-06-05

test: setup  ## the quick tests for every change
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m "not slow and not thorough"

test-thorough: setup  ## more tests for every change: those that take seconds, and further cases of long tables
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m "thorough and not slow"

ONLY ?=

test-slow: setup  ## long tests: weeks of logs, compiling anew; ONLY=partials takes those with such a name
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m slow -k "$(ONLY)"

VERSIONS ?= 4.0.0:3.11 4.1.4:3.12 4.2.1:3.13 4.3.0:3.12 4.3.0:3.13

test-versions: setup  ## the demo, the joins and the format on several Spark:Python, as in VERSIONS=4.0.0:3.11
	@tools/test-versions $(VERSIONS)

test-oldest:  ## the same on the oldest Spark
	@$(MAKE) test-versions VERSIONS=4.0.0:3.11

test-nightly: setup  ## the codec's property tests at full size, about an hour
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest tests/codec

test-storage: setup  ## real servers: S3 by Ceph's gateway, HDFS; and the kill harness
	@tools/test-servers
	$(BIN)/python -m pytest --numprocesses 2 --dist load tests/storage -rs

test-sources: setup  ## real sources: PostgreSQL over JDBC, Hive's metastore, Iceberg, Delta, Kafka
	@tools/source-servers
	$(BIN)/python -m pytest tests/sources -rs

test-gate: setup  ## nights that go wrong, each refused; ONLY=zeros takes those with such a name
	$(BIN)/python -m pytest --numprocesses 2 --dist load tests/broken_days -k "$(ONLY)"

test-faults: setup  ## Spark on a cluster and disks, failing in every way; dying after every call
	@command -v fusermount >/dev/null || tools/apt-install fuse "a disk that fails on demand is a FUSE file system" || true
	$(BIN)/python -m pytest tests/faults tests/disk_faults -rs
	CRASH_POINTS=all $(BIN)/python -m pytest tests/shards/test_crash_points.py

test-wheel: setup  ## the wheel alone, in a new environment and an empty directory
	$(BIN)/python -m pytest tests/wheel

test-packed: setup  ## a packed environment on hosts that have no other, as another user; output on S3 and HDFS
	@tools/test-servers
	$(BIN)/python -m pytest tests/packed -rs

test-recipes: setup  ## all recipes; those for Airflow, torch and Grain in environments of their own, 6 GB
	$(BIN)/python -m pytest tests/deployment
	$(BIN)/python -m pytest tests/recipes -m slow

MUTANTS ?= 22

mutants: setup  ## small changes of the core, each of which some test must notice; takes hours and goes on where it stopped
	$(BIN)/python -m tests.mutants $(MUTANTS)

coverage: setup  ## branches of publishing, storage and framing that no test takes; there are none
	@mkdir -p build
	COVERAGE_FILE=build/.coverage $(BIN)/python -m coverage run --branch --include='$(COVERED)' -m pytest tests/shards \
	  tests/records/test_reading.py tests/codec/test_record_streams.py tests/codec/test_record_damage.py tests/codec/test_framing_corners.py
	COVERAGE_FILE=build/.coverage $(BIN)/python -m coverage report --omit='*/storage/hdfs.py' --show-missing --skip-covered \
	  --fail-under=100

QUICK ?=
BEFORE ?=
AFTER ?= build/bench.json

bench: setup $(VENV)/.bench  ## the benchmarks, as a table and build/bench.json; QUICK=1 takes small data, ONLY=codec takes some
	CTR_SAMPLES_BENCH_QUICK=$(QUICK) $(BIN)/python -m pytest tests/benchmarks -p no:randomly -k "$(ONLY)"

bench-compare: $(READY)  ## two runs of `make bench`: BEFORE=old.json, and AFTER=build/bench.json unless said otherwise
	@test -n "$(BEFORE)" || { echo "usage: make bench-compare BEFORE=FILE [AFTER=FILE]" >&2; exit 2; }
	@$(BIN)/python -m tests.support.figures "$(BEFORE)" "$(AFTER)"

# What the codec is compared with; its own dependencies are old and not needed for its encoder.
$(VENV)/.bench: $(READY)
	$(BIN)/python -m pip install --quiet --no-deps tfx-bsl tensorflow-metadata
	@touch $@

fuzz: setup $(VENV)/.fuzz  ## the decoder against damaged records, for five minutes
	$(BIN)/python -m tests.fuzz.fuzz_decoder tests/fuzz/corpus -max_total_time=300

$(VENV)/.fuzz: $(READY)
	$(BIN)/python -m pip install --quiet atheris
	@touch $@

lint: $(READY)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

house: $(READY)  ## what the project weighs: modules and lines by package, words of documents
	@$(BIN)/python tools/house.py

format: $(READY)  ## put the code into its form
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

docs: $(READY)  ## write docs/configuration.md and docs/commands.md from the code
	$(BIN)/python tools/configuration_reference.py > docs/configuration.md
	$(BIN)/python tools/commands_reference.py > docs/commands.md

docs-site: $(VENV)/.site  ## the documents as a site in build/site; a link that leads nowhere fails it
	$(BIN)/python -m sphinx -b html -W --keep-going -q docs build/site
	@echo "build/site/index.html"

$(VENV)/.site: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[site]'
	@touch $@

lock: $(READY)  ## write constraints.txt from what is installed now
	@$(BIN)/python -m pip freeze --exclude-editable | sort -f > constraints.txt

clean:  ## remove what the targets made, but not .venv
	rm -rf build .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
