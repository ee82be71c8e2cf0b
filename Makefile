# Everything sets itself up: a machine with Python >= 3.11 and its venv module is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TRAINER := .venv-trainer
ARGS ?=
TIER ?= short
# Tests that a tier leaves out: marked in their files, or listed in tests/tiers.py.
LEFT_OUT_short := not slow and not nightly
LEFT_OUT_slow := not nightly
LEFT_OUT_all :=
SHARED_OUT = -n $(or $(WORKERS),2) --dist loadfile --max-worker-restart 0  # a worker that dies ends the run

.PHONY: sweep predict bench reproduce test nightly trainer lowest mutate lock lint format docs figures redraw notebooks clean help

sweep: $(READY)  ## the phase diagram; ARGS="staleness=lag seeds=256" changes settings
	$(BIN)/python -m bandit_lab sweep $(ARGS)

predict: $(READY)  ## formulas for one setting
	$(BIN)/python -m bandit_lab predict $(ARGS)

bench: $(READY)  ## throughput of this machine against NumPy; ARGS=--quick for a look in seconds
	$(BIN)/python -m benchmarks.against_numpy $(ARGS)

reproduce: $(READY)  ## figures and claims as drafts; ARGS="figures=two_detectors quality=paper"
	$(BIN)/python -m bandit_lab reproduce $(ARGS)

test: $(READY)  ## every kind of statement; TIER=slow: all of a commit's tests, TIER=all: nightly's too
	$(BIN)/python -m pytest $(SHARED_OUT) -m "$(LEFT_OUT_$(TIER))" $(ARGS)

nightly: $(READY)  ## what TIER=slow leaves out: all variants, all experiments, long Monte Carlo, many kills
	$(BIN)/python -m pytest $(SHARED_OUT) -m "nightly" $(ARGS)

trainer: $(TRAINER)/.ready  ## tests with TRL's trainer, in an environment of their own (2 GB: PyTorch); TIER as of test
	OMP_NUM_THREADS=1 $(TRAINER)/bin/python -m pytest $(SHARED_OUT) \
	    -m "trainer and ($(or $(LEFT_OUT_$(TIER)),trainer))" packages/grpo_probe/tests $(ARGS)

lowest:  ## lower bounds of all packages on every supported Python: commands, and the tests of `make test`
	.ci/lowest all

mutate: $(READY)  ## small defects planted at random in a copy, a night: which tests notice each? ARGS="--sample 20 --areas theory"
	$(BIN)/python -m pip install --quiet coverage
	$(BIN)/python tests/mutate.py $(ARGS)

lock: $(READY)  ## requirements.lock anew: the newest versions that pyproject.toml allows, for every supported Python
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --upgrade --no-header --no-annotate \
	    --extra dev --extra docs --output-file requirements.lock pyproject.toml

lint: $(READY)  ## linter, formatter check, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)  ## rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs  ## the documentation site into build/site; a broken link or example is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build $(ARGS)  # --quiet would hide warnings from the strict build

figures: $(READY)  ## every figure and claim at paper quality, the default sweep's results, the diagnostics' scores
	$(BIN)/python docs/_site/pictures.py
	$(BIN)/python -m bandit_lab reproduce quality=paper publish=figures $(ARGS)
	$(BIN)/python -m bandit_lab sweep run_dir=outputs/figures overwrite=true
	cp outputs/figures/trajectories.png figures/
	cp outputs/figures/summary.json figures/default_sweep.summary.json
	cp outputs/figures/manifest.json figures/default_sweep.manifest.json
	$(BIN)/python experiments/grading/diagnoses.py split=held_out runs=1500 run_dir=outputs/held_out overwrite=true
	cp outputs/held_out/summary.json figures/held_out.summary.json
	cp outputs/held_out/manifest.json figures/held_out.manifest.json
	cp outputs/held_out/recall.png figures/held_out.png
	$(BIN)/python experiments/grading/alarms.py split=held_out runs=2000 seed=2027 run_dir=outputs/alarms overwrite=true
	cp outputs/alarms/summary.json figures/watch.json

redraw: $(READY)  ## every figure again from its committed numbers; nothing is measured
	$(BIN)/python -m bandit_lab reproduce quality=paper numbers=figures publish=figures cache=null overwrite=true run_dir=outputs/redraw

notebooks: $(VENV)/.docs  ## runs the notebooks and the examples of the pages and stores what they show
	$(BIN)/python docs/_site/notebooks.py
	$(BIN)/python docs/_site/shown.py

$(READY): pyproject.toml requirements.lock packages/grpo_clinic/pyproject.toml packages/grpo_probe/pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --editable packages/grpo_clinic --editable packages/grpo_probe --editable '.[dev]'
	touch $(READY)

$(VENV)/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --constraint requirements.lock --editable '.[docs]'
	touch $(VENV)/.docs

# The oldest PyTorch that the extra allows comes first: a newer one would bring its CUDA libraries from an index that has a
# wheel of this one for the CPU alone. The network may be slow. Most of its modules are never imported, and need not be compiled.
$(TRAINER)/.ready: pyproject.toml
	test -x $(TRAINER)/bin/python || $(PYTHON) -m venv $(TRAINER)
	for wait in 5 20 0; do \
	    PIP_DEFAULT_TIMEOUT=300 $(TRAINER)/bin/python -m pip install --quiet --no-compile torch==2.13.0 && \
	    PIP_DEFAULT_TIMEOUT=300 $(TRAINER)/bin/python -m pip install --quiet --no-compile --editable packages/grpo_clinic --editable 'packages/grpo_probe[trl]' --editable '.[test]' && break; \
	    test $$wait -gt 0 && sleep $$wait || exit 1; \
	done
	touch $(TRAINER)/.ready

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1: /p' Makefile

clean:
	rm -rf $(VENV) $(TRAINER) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
