# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN    := .venv/bin
STAMP  := .venv/.ready
CXX_FILES = $$(git ls-files '*.cpp' '*.h' 2>/dev/null || find core bindings tests fuzz -name '*.cpp' -o -name '*.h')

.PHONY: demo test setup build lint core-test python-test fuzz-build sanitize soak format clean

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

python-test: build fuzz-build
	$(BIN)/python -m pytest

# Everything that reads files, under the address and undefined-behaviour sanitizers; tests/faults/test_fuzz.py runs it.
fuzz-build: $(STAMP)
	@$(BIN)/cmake -S . -B build/sanitize -G Ninja $(SANITIZED) -DGRAPHZERO_SANITIZE=address -DGRAPHZERO_FUZZ=ON >/dev/null
	@$(BIN)/cmake --build build/sanitize --target fuzz_mutate

# The C++ tests under both sanitizers, and a longer fuzz run. Minutes.
SANITIZED = -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DCMAKE_BUILD_TYPE=Debug -DGRAPHZERO_PYTHON=OFF -DGRAPHZERO_TESTS=ON
sanitize: fuzz-build
	$(BIN)/cmake --build build/sanitize
	build/sanitize/core_tests
	build/sanitize/fuzz_mutate --seconds 60
	$(BIN)/cmake -S . -B build/tsan -G Ninja $(SANITIZED) -DGRAPHZERO_SANITIZE=thread >/dev/null
	$(BIN)/cmake --build build/tsan
	TSAN_OPTIONS=halt_on_error=1 build/tsan/core_tests

# The long versions of the fault tests: every system call, 10,000 cycles, 100,000 bit flips. An hour on two cores.
soak: build fuzz-build
	GRAPHZERO_SOAK=1 $(BIN)/python -m pytest tests/faults -x -v

format: $(STAMP)
	$(BIN)/clang-format -i $(CXX_FILES)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build demo-data graphzero/_core*.so graphzero/_core.pyi
