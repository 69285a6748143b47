# `make demo` and `make test` are all that a newcomer needs: each sets up what it uses in .venv.
PYTHON ?= python3
BIN := .venv/bin
# Bytecode is kept, so that the many processes of the tests do not each compile the package anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo quick test docs lint types imports unit fast coverage benchmarks faults release-check clean

demo: .venv/core.stamp
	$(BIN)/coresift demo

# Under a minute, for every change: no Ray, torch, browser, other processes or long simulations.
quick: lint types imports fast

test: lint types imports unit

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev.stamp
	$(BIN)/mypy

imports: .venv/dev.stamp
	$(BIN)/lint-imports

fast: .venv/dev.stamp
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m "not slow and not ray and not models and not browser"

unit: .venv/dev.stamp
	$(BIN)/python -m pytest --numprocesses 3 --dist loadgroup

# Which lines and branches the quick tier does not reach.
coverage: .venv/dev.stamp
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal --cov --cov-report=term-missing -m "not slow and not ray and not models and not browser"

# The site, in site/; a warning is an error. The code in it runs in the tests.
docs: .venv/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# Slow studies; each writes its figures to benchmarks/results/.
benchmarks: .venv/benchmarks.stamp
	$(BIN)/python -m benchmarks.estimation
	$(BIN)/python -m benchmarks.shares
	$(BIN)/python -m benchmarks.diagnosis
	$(BIN)/python -m benchmarks.certificates
	$(BIN)/python -m benchmarks.strata
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.clustering
	$(BIN)/python -m benchmarks.compare
	$(BIN)/python -m benchmarks.rounds
	$(BIN)/python -m benchmarks.holder
	$(BIN)/python -m benchmarks.baselines
	$(BIN)/python -m benchmarks.regression
	$(BIN)/python -m benchmarks.cluster
	$(BIN)/python -m benchmarks.models
	$(BIN)/python -m benchmarks.plan
	$(BIN)/python -m benchmarks.report

# Kills, damaged files and hostile input for SECONDS by the clock; what fails is kept in tests/faults/ (faults/README.md).
SECONDS ?= 600
SEED ?= 0
faults: .venv/dev.stamp
	$(BIN)/python -m faults --seconds $(SECONDS) --seed $(SEED)

# What a release needs: sdist and wheel with valid metadata, and the demo in an environment that has the wheel alone.
release-check: .venv/python.stamp
	rm -rf dist .venv/release
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build twine
	$(BIN)/python -m build --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv .venv/release
	.venv/release/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd .venv/release && bin/coresift --version && bin/coresift demo

clean:
	rm -rf .venv dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/python.stamp:
	$(PYTHON) -m venv .venv
	touch $@

.venv/core.stamp: .venv/python.stamp pyproject.toml constraints.txt hatch_build.py $(wildcard src/coresift/clustering/*.[ch])
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/dev.stamp: .venv/core.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

.venv/docs.stamp: .venv/core.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

.venv/benchmarks.stamp: .venv/core.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[benchmarks]"
	touch $@
