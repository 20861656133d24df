# Sluice: `make run` starts a gateway, `make test` tests it, `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
HOST ?= 127.0.0.1
PORT ?= 8000

.DEFAULT_GOAL := help
.PHONY: help venv run test chaos check bench lock format

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

venv: $(VENV)/.dev ## create .venv with everything pinned

# uv installs the same pinned, hashed files twenty times as fast; pip is enough.
define install
	@echo "installing $(1) into $(VENV) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@if command -v uv >/dev/null 2>&1; then uv pip install -q --python $(BIN)/python --require-hashes -r $(1); \
	else $(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r $(1); fi
	@touch $@
endef

$(VENV)/.base: requirements/base.txt
	$(call install,requirements/base.txt)

$(VENV)/.dev: requirements/dev.txt $(VENV)/.base
	$(call install,requirements/dev.txt)

$(VENV)/.bench: requirements/bench.txt $(VENV)/.base
	$(call install,requirements/bench.txt)

run: $(VENV)/.base ## start the gateway with a demo tenant, an admin login and a simulated upstream
	@exec $(BIN)/python manage.py run_demo --host $(HOST) --port $(PORT)

test: $(VENV)/.dev ## run the tests: embedded, and on PostgreSQL + Redis where DATABASE_URL and REDIS_URL name them
	@BIN=$(BIN) tests/run_lanes.sh $(ARGS)

chaos: $(VENV)/.dev ## kill, stop and starve real processes: the crash guarantees (needs the programs of PostgreSQL and redis-server; takes a quarter of an hour)
	@$(BIN)/pytest -q -m chaos tests/chaos $(ARGS)

check: $(VENV)/.dev ## lint, format, types, import layers, migrations, system checks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python manage.py check

format: $(VENV)/.dev ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench ## measure against a raw pass-through (needs gcc, PostgreSQL, Redis)
	$(BIN)/python tests/bench/bench.py $(ARGS)

lock: ## compile requirements/*.txt from *.in (needs uv)
	cd requirements && for name in base dev bench; do \
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header $$name.in -o $$name.txt; done
