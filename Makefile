# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WORKERS ?= 2

.PHONY: demo test lint format docs bench zoo clean

demo: $(INSTALLED)
	$(BIN)/python -m examples.demo

# A crash of MAX's compiler takes its worker along, and the next worker would compile the same again.
test: $(INSTALLED)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --max-worker-restart 2 -m "not slow" $(ARGS)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Material announces its successor on each build; the variable is its own switch for that.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean
	@echo "open site/index.html"

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.run --output docs $(ARGS)

zoo: $(INSTALLED)
	$(BIN)/python -m tests.zoo --output docs
	$(BIN)/python -m tests.zoo --training --output docs
	$(BIN)/python -m benchmarks.zoo --output docs

$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

$(VENV)/.installed-%: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis reports demo_output site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
