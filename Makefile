# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN    := .venv/bin
STAMP  := .venv/.ready
CXX_FILES = $$(git ls-files '*.cpp' '*.h' 2>/dev/null || find core bindings tests fuzz -name '*.cpp' -o -name '*.h')

.PHONY: demo test setup build lint core-test python-test format clean

demo: build
	$(BIN)/graphzero demo

test: lint core-test python-test

setup: $(STAMP)
$(STAMP): requirements-dev.txt constraints.txt .ci/setup
	PYTHON="$(PYTHON)" sh .ci/setup
	@touch $@

# The native module is built beside the Python files, so that the checkout is the package.
build: $(STAMP)
	@$(BIN)/cmake -S . -B build/dev -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DGRAPHZERO_INPLACE=ON -DGRAPHZERO_TESTS=ON >/dev/null
	@$(BIN)/cmake --build build/dev

lint: build
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

core-test: build
	build/dev/core_tests

python-test: build
	$(BIN)/python -m pytest

format: $(STAMP)
	$(BIN)/clang-format -i $(CXX_FILES)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build demo-data graphzero/_core*.so graphzero/_core.pyi
