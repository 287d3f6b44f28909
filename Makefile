# The two commands of the README: `make demo` and `make test`. Each sets everything up on its own.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint check install lock soak clean
demo: install
	$(BIN)/paretoken demo

test: install
	$(MAKE) --no-print-directory check

check: lint
	$(BIN)/pytest -q -n 2 --dist loadfile

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@if command -v uv >/dev/null; then \
	  uv venv --quiet --allow-existing --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(VENV) && \
	  uv pip install --quiet --python $(BIN)/python -r requirements.lock -e .; \
	else \
	  $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock -e .; \
	fi
	@touch $@

lock:
	uv pip compile --quiet --universal --no-header --no-emit-index-url --python-version 3.11 --extra embedded --extra dev --no-annotate -o requirements.lock pyproject.toml

clean:
	rm -rf $(VENV)
