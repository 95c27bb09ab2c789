# Two commands need nothing but CPython 3.11 or newer, a C++20 compiler and cmake: make demo, make test. The rest is for
# people who work here.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready
ROOM = src/dragoman
COVERED = $(ROOM)/model/*,$(ROOM)/search/*,$(ROOM)/text/*,$(ROOM)/data/*,$(ROOM)/loss.py,$(ROOM)/store/*

LIBRARY = $(ROOM)/native/libdragoman.so
SANITIZED = build/native-sanitized
AARCH64 = build/native-aarch64

.PHONY: demo test test-all test-reliability check fix native-test native-aarch64 clean

demo: $(READY)  ## make a translator from our own sentences and use it, in about two minutes
	$(BIN)/dragoman demo

test: $(LIBRARY)  ## everything that is quick: style, types, contracts, the engine's own tests, tests with coverage
	$(MAKE) check
	$(MAKE) native-test
	$(BIN)/python -m pytest -m "not slow" -n 2 --cov --cov-report=
	$(BIN)/coverage report --skip-covered --include '$(COVERED)' --fail-under 95

test-all: $(LIBRARY)  ## the slow stories too
	$(BIN)/python -m pytest -n 2

test-reliability: $(LIBRARY)  ## kills, faults and attacks by the hundred, some hours; see docs/notes/0010-reliability.md
	$(BIN)/python -m pytest -m reliability

check: $(READY)  ## style, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: $(READY)  ## mend the style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Installing has built the engine once; this builds it again after a change.
$(LIBRARY): $(wildcard native/CMakeLists.txt native/*/*.h native/src/*.cpp native/src/train/*) | $(READY)
	cmake -S native -B build/native -DSKBUILD_STATE=editable
	cmake --build build/native --parallel 2
	touch $@

native-test:  ## the C++ engine's own tests, under AddressSanitizer and UBSan
	cmake -S native -B $(SANITIZED) -DDRAGOMAN_TESTS=ON -DDRAGOMAN_WERROR=ON -DDRAGOMAN_SANITIZE=address,undefined
	cmake --build $(SANITIZED) --target native_tests --parallel 2
	$(SANITIZED)/native_tests
	@# A function that kernels share with other objects may be taken from the one this processor cannot run.
	! find $(SANITIZED)/CMakeFiles/kernels_*.dir -name "*.o" -exec nm --defined-only -C {} + | grep ' [uVW] '

native-aarch64:  ## the same for 64-bit ARM, in an emulator; Debian: g++-aarch64-linux-gnu, qemu-user
	cmake -S native -B $(AARCH64) --toolchain $(CURDIR)/native/cmake/aarch64-linux-gnu.cmake -DDRAGOMAN_TESTS=ON
	cmake --build $(AARCH64) --target native_tests --parallel 2
	ctest --test-dir $(AARCH64) --output-on-failure

clean:
	rm -rf $(VENV) build $(ROOM)/native demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# PyTorch first and alone: asked for by another package, an index may answer with a build for GPUs of several GB.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'torch>=2.11,<2.14'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[train,dev]'
	touch $@
