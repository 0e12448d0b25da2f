# Each target does everything from a bare checkout with Python 3.11 or newer and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export OPENBLAS_NUM_THREADS = 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-all processors core matrix oldest oldest-environment newest newest-python newest-environment lint types points specification sweep portability platforms device bench suite loops jax-users autograd-suite torch-backend torch-samples coverage package release parity-score docs pictures fuzz hostile accuracy mutants mutants-map clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(STAMP): pyproject.toml examples/tropical/pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[xla,cli,test,docs,dev]' -e examples/tropical
	touch $(STAMP)

demo: $(STAMP) ## trace, differentiate, run natively, export StableHLO, run through PJRT, compare
	$(BIN)/python examples/demo.py
	$(BIN)/python examples/digits.py
	$(BIN)/python examples/train_digits.py
	$(BIN)/python examples/sharded.py

PART := 1/1
test: $(STAMP) ## run the core of the test suite
	$(BIN)/python -m pytest -n 2 --dist worksteal -m core

test-all: $(STAMP) ## run the test suite; PART=1/2 is half of it
	$(BIN)/python -m pytest -n 2 --dist worksteal --part $(PART)

processors: $(STAMP) ## find the tests that depend on the processor, and write their files in tests/selections; TESTS=tests/exec for some
	$(BIN)/python -m pytest -n 2 --dist worksteal --write-processors $(TESTS)

# A quarter of an hour, with the Python of the newest environment.
core: newest-environment ## choose the core of the test suite by what each test covers, and write tests/selections/core.txt
	$(NEWEST)/bin/python -m tools.core record -n 2 --dist worksteal
	$(NEWEST)/bin/python -m tools.core choose

matrix: oldest newest ## run what touches jaxlib, llvmlite and NumPy with the oldest and the newest that are supported; PART=1/2 is half of it

TOUCHING := tests/hall tests/ops/test_samples.py tests/exec/test_kernel_corners.py tests/api/test_against_numpy.py $(addprefix tests/xla_peer/test_,executable.py executor.py compile_cache.py \
	artifact.py inside_jax.py jax_export.py sharding.py device.py known_faults.py) $(addprefix tests/exec/test_llvm,.py _link.py _products.py)
first_python = $(shell for version in $(1); do for python in python$$version $$HOME/.pyenv/versions/$$version*/bin/python; do \
	$$python -c '' 2>/dev/null && echo $$python && exit; done; done)

OLDEST := .venv-oldest
OLDEST_PYTHON ?= $(call first_python,3.11 3.12)

oldest-environment: ## install the oldest jaxlib, llvmlite, NumPy and SciPy that are supported, which need Python 3.11 or 3.12
	test -n '$(OLDEST_PYTHON)' || { echo 'no Python 3.11 or 3.12 here; give OLDEST_PYTHON'; exit 1; }
	test -x $(OLDEST)/bin/python || $(OLDEST_PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check \
		'jax==0.8.0' 'jaxlib==0.8.0' 'llvmlite==0.45.0' 'numpy==2.1.*' 'scipy==1.13.*' -e '.[xla,test]' -e examples/tropical

oldest: oldest-environment ## run what touches jaxlib, llvmlite and NumPy with the oldest that are supported, in an environment of its own; PART=1/2 is half of it
	$(OLDEST)/bin/python -m pytest -n 2 --part $(PART) $(TOUCHING)

NEWEST := .venv-newest
NEWEST_PYTHON ?= $(call first_python,3.14 3.13 3.12)

newest-python: ## the Python for it
	@echo $(NEWEST_PYTHON)

newest-environment: ## install the newest jaxlib, llvmlite, NumPy and SciPy that are supported, which need Python 3.12
	test -n '$(NEWEST_PYTHON)' || { echo 'no Python of 3.12 or newer here; give NEWEST_PYTHON'; exit 1; }
	test -x $(NEWEST)/bin/python || $(NEWEST_PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager \
		-e '.[xla,cli,test]' -e examples/tropical

newest: newest-environment ## run what touches jaxlib, llvmlite and NumPy with the newest that are supported, in an environment of its own; PART=1/2 is half of it
	$(NEWEST)/bin/python -m pytest -n 2 --part $(PART) $(TOUCHING) tests/lax/test_lax.py

PLATFORM := cuda
WORKERS := 4
device: $(STAMP) ## run the tests of the peer on the device that is here; PLATFORM=cuda WORKERS=4
	XLA_PYTHON_CLIENT_PREALLOCATE=false $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --tenferro-platform $(PLATFORM) \
		tests/xla_peer/test_device.py tests/ops/test_parity.py tests/ad/test_parity.py \
		$(addprefix tests/ext/test_,linalg.py fft.py einsum.py)

lint: $(STAMP) ## style, spelling and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/lint-imports
	$(BIN)/python tools/cycles.py
	$(BIN)/python tools/cells.py
	$(BIN)/python tools/coverage.py --check
	$(BIN)/python tools/floors.py --check
	$(BIN)/python tools/stablehlo_page.py --check
	$(BIN)/python tools/english.py
	$(BIN)/python tools/release_notes.py --check
	$(BIN)/python tools/support.py --check

types: $(STAMP) ## strict types
	$(BIN)/basedpyright

sweep: $(STAMP) ## long sweeps
	$(BIN)/python -m pytest -n 2 -m sweep
	$(BIN)/python -m pytest -n 2 --every-case -p tests.exec.everything_large tests/ops tests/ad tests/ext tests/api

portability: $(STAMP) ## run the tests that depend on the processor as if on Haswell, Zen, SkylakeX and Nehalem; ONCE=--once leaves out what would compute the same again
	$(BIN)/python -m tools.portability --part $(PART) $(ONCE)

platforms: $(STAMP) ## compile every op for TPU and CUDA, without having one; fetches 1.2 GB of compilers
	version=$$($(BIN)/python -c 'import jaxlib; print(jaxlib.__version__)'); \
	test -d .platforms/libtpu || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--target .platforms 'libtpu==0.0.42.*' "jax-cuda12-pjrt==$$version" "jax-cuda12-plugin==$$version"
	$(BIN)/python -m pytest -m platforms tests/xla_peer/test_platforms.py

bench: $(STAMP) ## import, tracing, running, lowering, dispatch, compile caching, callers in threads, the guard and texts
	$(BIN)/python benchmarks/import_time.py
	$(BIN)/python benchmarks/graph_scale.py
	$(BIN)/python benchmarks/checkpoint_memory.py
	$(BIN)/python benchmarks/scan_memory.py
	$(BIN)/python benchmarks/dispatch.py
	$(BIN)/python benchmarks/compile_cache.py
	$(BIN)/python benchmarks/guard.py
	$(BIN)/python benchmarks/small_programs.py
	$(BIN)/python benchmarks/golden.py
	$(BIN)/python benchmarks/copies.py
	$(BIN)/python benchmarks/callers.py
	$(BIN)/python benchmarks/texts.py
	$(BIN)/python benchmarks/workers.py
	$(BIN)/python benchmarks/overview.py

suite: $(STAMP) ## every benchmark against NumPy, jax, and where installed torch, autograd and PyTensor
	$(BIN)/python benchmarks/suite --write

loops: $(STAMP) ## loops against NumPy, jax, and where installed numba
	$(BIN)/python benchmarks/loops --write
	$(BIN)/python benchmarks/loops/turn.py --write

jax-users: $(STAMP) ## programs of JAX's users natively, against jax.jit, and where installed numba
	$(BIN)/python benchmarks/jax_users --write

AUTOGRAD := build/autograd-1.9.1

$(AUTOGRAD): $(STAMP)
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest build autograd==1.9.1
	tar xzf $(AUTOGRAD).tar.gz -C build

autograd-suite: $(AUTOGRAD) ## run HIPS autograd's tests on tenferro's names; fetches its source distribution
	$(BIN)/python -m tests.shims.autograd_suite $(AUTOGRAD)/tests

TORCH := .venv-torch

torch-backend: ## run the example of a backend on PyTorch's tensors, in an environment of its own
	test -x $(TORCH)/bin/python || $(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check \
		'torch==2.13.0' -e '.[test]' -e examples/torch_backend
	$(TORCH)/bin/python -m pytest examples/torch_backend

# A quarter of an hour, natively and through PJRT; goes on where it was ended.
torch-samples: ## run PyTorch's operator samples on our functions, in an environment of their own, and write docs/torch_samples.md
	test -x $(TORCH)/bin/python || $(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check 'torch==2.13.0' expecttest -e '.[xla,test]'
	$(TORCH)/bin/python -m tools.torch_samples --samples 12
	$(TORCH)/bin/python -m tools.torch_samples --samples 1 --peer --write

package: ## build a wheel and a source distribution, check them, and try each extra in an empty environment
	$(PYTHON) tools/package.py build/package

release: $(STAMP) ## write the release notes from changes/, build and check the distributions, and tag; pushes nothing
	$(BIN)/python tools/release_notes.py --write
	$(PYTHON) tools/package.py build/package
	$(BIN)/python tools/release_notes.py --tag

docs: $(STAMP) ## build the site into build/docs; a warning is an error
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/docs

pictures: $(STAMP) ## draw docs/images again, with Chromium
	$(BIN)/python tools/pictures.py
	$(BIN)/python tools/floors.py
	$(BIN)/python tools/gallery.py
	$(BIN)/python tools/numpy_files.py

fuzz: $(STAMP) ## ten minutes of random programs on both paths
	$(BIN)/tenferro fuzz --minutes 10

SEED := 0
hostile: MUTANTS := 20000
hostile: $(STAMP) ## damaged files of every kind, read in children; goes on where it was ended; SEED=1 are others
	$(BIN)/python -m tools.hostile --mutants $(MUTANTS) --seed $(SEED)

parity-score: COUNT := 10000
parity-score: MINUTES := 600
parity-score: $(STAMP) ## seed faults and rewrites into modules, and write docs/verdicts.md of what the parity check makes of them; goes on where it was ended
	$(BIN)/python -m tools.parity_score --count $(COUNT) --seed $(SEED) --minutes $(MINUTES) --write

# Two to three hours for so many, of one core; last on 2026-11-25. A minute for SINGLES=100000 DOUBLES=100000.
accuracy: SINGLES := 100000000
accuracy: DOUBLES := 1000000
accuracy: $(STAMP) ## measure the largest error of each function, and write docs/accuracy.md; goes on where it was ended
	$(BIN)/python -m tools.accuracy --singles $(SINGLES) --doubles $(DOUBLES)

# Half an hour; then two for a thousand mutants, with two workers.
mutants-map: $(STAMP) ## record which tests run which lines, in a copy of the tree; goes on where it was ended
	$(BIN)/python -m tools.mutants map

mutants: MUTANTS := 1000
mutants: $(STAMP) ## change one line at a time, and see whether the tests notice; SEED=1 are other lines, ONLY='--only tenferro/ext' fewer
	$(BIN)/python -m tools.mutants run --mutants $(MUTANTS) --seed $(SEED) $(ONLY)

# At one level of XLA's optimisation; the sweep has another, of the same samples.
coverage: $(STAMP) ## run what fills the ledger of what the tests ran, and write it and docs/coverage.md
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not platforms' -k 'not None' --ledger tests/ledger/ledger.json tests
	$(BIN)/python tools/coverage.py

points: $(STAMP) ## write what derivatives should be at exceptional points, and docs/exceptional_points.md
	$(BIN)/python tools/points.py

specification: $(STAMP) ## write docs/specification from the statements of tests/specification
	$(BIN)/python tools/specification.py

clean: ## remove what was installed and built
	rm -rf $(VENV) $(OLDEST) $(NEWEST) $(TORCH) build dist *.egg-info .pytest_cache .ruff_cache .import_linter_cache
