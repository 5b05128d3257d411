# make demo      install, train the built-in demo, show its translations (4 to 5 minutes on 2 cores)
# make test      lint, types, and the tests that are not marked slow
# make test-all  the slow tests: long runs, notebooks, real sizes, comparison with Hugging Face's
#                models, recipes compiled for TPUs and GPUs; installs torch and these compilers first
# make test-beam the tests of `prepare --engine beam`, in .venv-beam: Apache Beam needs older versions
#                of a few packages
# make notebooks run the notebooks in colab/, store their outputs, and compare these with the stored
#                ones (half an hour; `make notebooks ONLY=quickstart` runs one)
# make clean     forget the demo's training run, so that `make demo` trains anew

# The first Python of at least 3.11; choose another one with `make demo PYTHON=python3.12`.
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# The first import of a module writes its bytecode, also where the environment forbids it.
export PYTHONDONTWRITEBYTECODE :=

IN_VENV := .venv/bin/python -m
PIP_INSTALL := $(IN_VENV) pip install --no-compile --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-all test-beam notebooks clean

# An update takes three times as long on x86 CPUs without AVX512-BF16, so these make fewer updates
# with fewer tokens in the vocabulary.
SLOW_CPU := $(shell grep -qs ^flags /proc/cpuinfo && ! grep -qs avx512_bf16 /proc/cpuinfo && echo yes)
FEWER_UPDATES := --training.num-steps 560 --training.validate-every 280 \
  --data.tokenizer.vocab-size 5000 --data.train.weights 0.9 0.7

demo: .venv/installed
	$(IN_VENV) flaxformer_mt.train --config configs/demo.py --workdir runs/demo $(if $(SLOW_CPU),$(FEWER_UPDATES))

# Most tests are small models whose compilation takes longer than their run. Without most of its
# optimizations and without fusion emitters, XLA compiles them in a third of the time. (The flag does
# not exist in jaxlib 0.12 any more. constraints.txt has an older version.)
COMPILE_QUICKLY := JAX_DISABLE_MOST_OPTIMIZATIONS=true XLA_FLAGS=--xla_cpu_use_fusion_emitters=false
PYTEST := $(IN_VENV) pytest -n 2 --dist worksteal

test: .venv/installed-test
	$(IN_VENV) ruff check .
	$(IN_VENV) ruff format --check .
	$(IN_VENV) pyrefly check
	$(COMPILE_QUICKLY) $(PYTEST) -m "not slow"

test-all: .venv/installed-test-all
	$(COMPILE_QUICKLY) $(PYTEST) -m "slow and not default_compiler" -o timeout=900
	$(PYTEST) -m "slow and default_compiler" -o timeout=900

test-beam: .venv-beam/installed
	.venv-beam/bin/python -m pytest tests/data/prepared/test_beam.py

notebooks: .venv/installed-test-all
	$(IN_VENV) tools.notebooks $(if $(ONLY),--only $(ONLY))

clean:
	rm -rf runs/demo

# The stamps are files, so that a second `make demo` or `make test` starts at once.
.venv/installed: pyproject.toml constraints.txt
	$(if $(PYTHON),,$(error Python 3.11 or newer is needed and none was found on the PATH))
	@echo "Installing into .venv (a minute or two) ..."
	$(PYTHON) -m venv .venv
	$(PIP_INSTALL) -e '.[plots]'
	@touch $@

.venv/installed-test: .venv/installed
	@echo "Installing what the tests need ..."
	$(PIP_INSTALL) --quiet -e '.[test]'
	@touch $@

.venv/installed-test-all: .venv/installed-test
	@echo "Installing PYEVALB, torch, transformers, libtpu and JAX's compiler for GPUs ..."
	$(PIP_INSTALL) --quiet -e '.[parity,tpu]'
	-$(PIP_INSTALL) --quiet -e '.[gpu-compiler]'  # without it, tests of compiled GPU programs skip
	@touch $@

.venv-beam/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-beam
	grep -viE '^(beartype|pillow|protobuf|pyarrow)==' constraints.txt > .venv-beam/constraints.txt
	.venv-beam/bin/python -m pip install --quiet --disable-pip-version-check \
	  -c .venv-beam/constraints.txt -e '.[test,beam]'
	@touch $@
