# Every target sets itself up in .venv; nothing else is installed or changed.

PYTHON ?= python3
PORT ?= 8000
BIN := .venv/bin
TOGETHER := --numprocesses=auto --dist=worksteal

# Without bytecode, each process of the tests, and each command that they start, would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

help:  ## Show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */make \1\t/' | expand -t 20

demo: .venv/installed-demo  ## Start the demo shop (PORT=8000, PARTITIONS=1, LIMIT_POLICY=end_oldest, CLUSTER=3 for a cluster, HISTORY=0 without the app of sign-ins, MOVE=db to see sessions move, CLICKS=0 without clicks of shoppers, HTTPS=1 for sessions that are bound to devices, REDIS_URL= for a server of yours)
	@PORT=$(PORT) $(BIN)/python -m testproject.demo

test: .venv/installed-test  ## Run the tests to run before each change, in under three minutes (ARGS="-n 0 tests/admin/test_sessions.py": some, one by one)
	@$(BIN)/pytest $(TOGETHER) -m "not slow" --hypothesis-profile=short $(ARGS)

test-all: .venv/installed-test  ## Run all tests: the slow ones, browsers and a second kind of server too
	@$(BIN)/pytest $(TOGETHER) -m "not combination" $(ARGS)

test-clock: .venv/installed-test  ## Run tests that count hours or days around midnight, on 29 February and where summer time begins and ends
	@set -e; for at in "2027-12-31 23:45 UTC" "2028-02-29 00:10 UTC" "2027-03-29 00:10 Europe/Berlin" "2027-10-31 23:45 Europe/Berlin"; do \
		echo "At $$at:"; $(BIN)/pytest -q --numprocesses=2 -m "clock and not slow" --clock "$$at" --no-header $(ARGS) \
		$$(grep -rl --include="test_*.py" "mark\.clock" tests); done

test-django: .venv/installed-test  ## Run Django's own tests of session engines on this one
	@$(BIN)/python -m tests.helpers.django_sessions $(ARGS)

test-databases: .venv/installed-test  ## Run the tests of the sign-in history on PostgreSQL and on MariaDB, where they are installed
	@$(BIN)/python -m tests.helpers.databases -q $(TOGETHER) -m "not slow" --hypothesis-profile=short $(ARGS)

test-planted: .venv/installed-test  ## Plant faults into copies of the package, and see that tests find them (ARGS=seal-without-sid: one; without, an hour)
	@$(BIN)/python -m tests.planted $(ARGS)

test-neighbours: .venv/installed-test  ## Run the tests of other packages beside this one (ARGS="django-axes": of some; all take an hour or two)
	@$(BIN)/python -m tests.neighbours $(ARGS)

soak: .venv/installed-test  ## Soak the whole shop: a week of operations under traffic, in so many minutes (MINUTES=120, TRAFFIC=visits.csv, ARGS="--seed 7")
	@$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),120) $(if $(TRAFFIC),--traffic "$(TRAFFIC)") $(ARGS)

test-matrix: .venv/installed-matrix  ## Run what depends on Python or Django with every supported Python that is here, and every Django
	@rm -rf .venv/tox/*/log
	@$(BIN)/tox run-parallel -q --parallel 2 --parallel-no-spinner -- $(ARGS)
	@cd .venv/tox && grep -oE 'Ran with {.*}|[0-9]+ passed.* in [0-9.]+s|RERUN .*' */log/* | sed 's|/log/[^:]*||'

bench: .venv/installed-bench  ## Compare with other session engines (QUICK=1: under two minutes, ARGS=--targets: half an hour)
	@QUICK=$(QUICK) $(BIN)/python -m benchmarks $(ARGS)

lint: .venv/installed-dev  ## Check style, types, import layers, Lua and migrations
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.lua.lint
	$(BIN)/python testproject/manage.py makemigrations --check --dry-run

docs: .venv/installed-docs  ## Build the documentation as a site, in .venv/docs
	@rm -rf .venv/docs
	$(BIN)/python -m sphinx -q -W --keep-going $(ARGS) docs .venv/docs
	@echo "Open .venv/docs/index.html"

readthedocs: .venv/installed-test  ## Build it as Read the Docs does, from .readthedocs.yaml in a new environment, in .venv/docs
	@rm -rf .venv/docs
	@$(BIN)/python -m tests.helpers.readthedocs .venv/docs
	@echo "Open .venv/docs/index.html"

docs-pages: .venv/installed-test  ## Write anew what the pages of the documentation have from the code
	@$(BIN)/python -m docs._ext

screenshots: .venv/installed-test  ## Make the pictures in docs/ from the demo, with Chromium
	@$(BIN)/python -m tests.helpers.screenshots

gallery: .venv/installed-test  ## Make pictures of every page in .venv/gallery, to look at them, with Chromium (ARGS="own mail": of some)
	@$(BIN)/python -m tests.helpers.gallery .venv/gallery $(ARGS)

public-names: .venv/installed-test  ## Write docs/reference/public-names.txt anew, and show which public names have changed
	@$(BIN)/python -m tests.helpers.public_names $(ARGS)

format: .venv/installed-dev  ## Format the code
	$(BIN)/ruff format .

dist: .venv/installed-release  ## Build the commit twice, compare, and write sdist, wheel, SBOM and hashes to dist/ (VERSION=1.0: stop unless it is that)
	@$(BIN)/python -m release.dist $(if $(VERSION),--version $(VERSION)) $(ARGS)

release: .venv/installed-release  ## Make a release, all but push and upload (VERSION=1.0, ARGS=--dry-run: change nothing but dist/)
	@$(BIN)/python -m release $(VERSION) $(ARGS)

build-requirements: .venv/installed-release  ## Pin the newest tools of a build, with their hashes
	@$(BIN)/python -m release.pin

audit: .venv/installed-release  ## Ask whether what sites install has known vulnerabilities
	@$(BIN)/python -m release.audit

clean:  ## Remove what the other targets made
	rm -rf .venv .demo dist

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"Python 3.11 or newer is needed, this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv

.venv/installed-%: pyproject.toml | .venv/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

.PHONY: help demo test test-all test-clock test-django test-databases test-planted test-neighbours soak test-matrix bench lint docs readthedocs screenshots gallery public-names format dist release build-requirements audit clean
