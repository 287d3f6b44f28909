# The two commands of the README: `make demo` and `make test`. Each sets everything up on its own.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test check lint pytest install browser lock soak clean
demo: $(VENV)/runs
	$(BIN)/paretoken demo

test: install browser
	$(MAKE) --no-print-directory check

check: lint pytest

pytest:
	$(BIN)/pytest -q -n 3 --dist worksteal

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

install: $(VENV)/develops

# The report's tests look at it with Chromium; where it is missing and cannot be installed they are skipped (in CI: fail).
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "Installing chromium …"; apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium >/dev/null; \
	  else \
	    echo "No chromium on the path: tests that need a browser are skipped."; \
	  fi; }

# What a run needs, at the versions of the lock file; and what development needs besides.
$(VENV)/runs: EXTRAS = embedded
$(VENV)/develops: EXTRAS = embedded,dev

$(VENV)/runs $(VENV)/develops: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@echo "Installing into $(VENV) …"
	@if command -v uv >/dev/null; then \
	  uv venv --quiet --allow-existing --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(VENV) && \
	  uv pip install --quiet --python $(BIN)/python -c requirements.lock -e '.[$(EXTRAS)]'; \
	else \
	  $(PYTHON) -m venv $(VENV) && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[$(EXTRAS)]'; \
	fi
	@touch $@

# The long form of tests/faults: about an hour. It prints the table of docs/reliability.md.
soak: install
	$(BIN)/python -m tests.faults.nemesis --seeds 1-10 --jobs 2000 --faults 30

lock:
	uv pip compile --quiet --universal --no-header --no-emit-index-url --python-version 3.11 --extra embedded --extra dev --no-annotate -o requirements.lock pyproject.toml

clean:
	rm -rf $(VENV)
