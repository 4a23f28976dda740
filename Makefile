# make help says what there is. Every target does its own set-up; python >= 3.11, git and make are all it needs.
PYTHON   ?= python3
BUDGET   ?= paper
SEEDS    ?= 1
LAUNCHER ?= local
VENV     := .venv
RUN      := $(VENV)/bin/python
BEGUN    := $(VENV)/.begun
# A set-up that was killed has left half a package somewhere: then the environment is made anew
_        := $(shell pid=$$(cat $(BEGUN) 2> /dev/null) && ! kill -0 $$pid 2> /dev/null && rm -rf $(VENV))
# uv where it is installed (make setup UV= does without), but not to keep a torch outside of .venv, which it cannot see
UV       := $(shell command -v uv)
# The first process that imports a module writes its bytecode; where the environment forbids that, pip writes it all
unexport PYTHONDONTWRITEBYTECODE
INSTALL  := install() { if [ -n "$(UV)" ] && ! grep -qs 'system-site-packages = true' $(VENV)/pyvenv.cfg; then \
  $(UV) pip install -q --python $(RUN) $(if $(PYTHONDONTWRITEBYTECODE),--compile-bytecode) "$$@"; \
  else $(VENV)/bin/pip install -q $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile) "$$@"; fi; }
EDITABLE := install -c $(VENV)/constraints.txt --config-settings editable_mode=compat -e
# Each step says before it begins what it installs and how large that is, and afterwards how long it took
STEP     := step() { echo "$$1 ..."; shift; since=$$(date +%s); "$$@"; code=$$?; echo "    took $$(($$(date +%s) - since)) s"; return $$code; }; step
extra     = @echo $$PPID > $(BEGUN); $(INSTALL); $(STEP) "installing $(2)" $(EDITABLE) '.[$(1)]'; code=$$?; rm $(BEGUN); exit $$code
WORKERS  := -n 2 --dist worksteal
FAST     := "not slow and not ray and not slurm and not data"
TABLES   := $(basename $(notdir $(wildcard conf/table/*.yaml)))
TIMED    := $(basename $(notdir $(shell grep -ls '^rounds:' conf/table/*.yaml)))

.PHONY: help setup demo test test-slow test-slurm test-ray test-lowest coverage lint bench gpu-check report watch audit sync parity mutate all clean $(TABLES)

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14
	@echo "$(filter-out $(TIMED),$(TABLES))" | tr ' ' '\n' | sed 's/$$/   BUDGET=paper|mini|smoke SEEDS=1,2,3 LAUNCHER=local|slurm|ray|inline/'
	@echo "$(TIMED)" | tr ' ' '\n' | sed 's/$$/   BUDGET=paper|mini|smoke/'
	@echo "BUDGET=medium: $(basename $(notdir $(shell grep -ls '^  medium:' conf/table/*.yaml)))"

setup: $(VENV)/.dev $(VENV)/.ray  ## the environment in .venv, with every extra; PYTHON=... chooses the interpreter, and its torch is kept if it has one

demo: $(VENV)/.core  ## Table 1 of Highway Transformer on generated text, in four minutes with set-up, and its report
	$(RUN) -m highway train -m table=highway_t1 budget=smoke seeds=1
	@echo "The site of all reports: make report. To type highway yourself: source $(VENV)/bin/activate"

$(TIMED): $(VENV)/.core
	$(RUN) -m highway table time $@ --budget $(BUDGET)
	$(RUN) -m highway report $@ --budget $(BUDGET)

$(filter-out $(TIMED),$(TABLES)): $(VENV)/.core
	$(RUN) -m highway train -m table=$@ budget=$(BUDGET) seeds=$(SEEDS) hydra/launcher=$(LAUNCHER)

all: $(TABLES)  ## every table, one after the other

report: $(VENV)/.core  ## every table that has records, and the site: outputs/report/index.html
	$(RUN) -m highway report

watch: $(VENV)/.core  ## the site on localhost, kept up to date while a sweep runs
	$(RUN) -m highway report --watch

sync: $(VENV)/.core  ## upload what logger=wandb has mirrored offline
	$(RUN) -m highway dashboard --sync

audit: $(VENV)/.core  ## the papers held against their own numbers and models: no data, no training, under a minute
	$(RUN) scripts/audit.py

bench: $(VENV)/.bench  ## training speed at every table's shape against torch.nn and x-transformers; needs an idle machine
	$(RUN) scripts/benchmark.py

gpu-check: $(VENV)/.dev $(VENV)/.bench  ## the tests that need a GPU, then training speed on it at six shapes
	@$(RUN) -c 'import sys, torch; torch.cuda.is_available() or sys.exit("error: there is no CUDA device here.")'
	CUBLAS_WORKSPACE_CONFIG=:4096:8 $(RUN) -m pytest -m cuda
	$(RUN) scripts/benchmark.py highway_t1 highway_t3 highway_t4 highway_t5 gated_resnet_t1 hsg_t1 --rounds 3

lint: $(VENV)/.dev  ## ruff and mypy
	$(RUN) -m ruff check . && $(RUN) -m ruff format --check -q .
	$(RUN) -m mypy

test: lint  ## all tests that take seconds
	$(RUN) -m pytest $(WORKERS) -m $(FAST)

coverage: $(VENV)/.dev  ## the lines of highway/ that the tests of make test never reach; measuring slows them down
	$(RUN) -m pytest $(WORKERS) -m $(FAST) --cov=highway --cov-report=term:skip-covered

# The equations of every module, and a row of every model in bf16
NUMERIC  := $(addprefix tests/,blocks gates models/test_transformer.py models/test_transformer_xl.py models/test_r_transformer.py \
  models/test_rhn.py models/test_rivals.py models/test_bf16.py)

test-slow: $(VENV)/.dev  ## kill and resume, several processes, README as typed; then the equations as on a processor with AVX2 alone
	$(RUN) -m pytest $(WORKERS) -m slow
	ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 $(RUN) -m pytest -q $(WORKERS) $(NUMERIC)

test-slurm: $(VENV)/.dev  ## a sweep through a real Slurm of two nodes, one of which is lost; installs Slurm (Debian, Ubuntu)
	tests/with_slurm $(RUN) -m pytest -m slurm tests/sweep/test_clusters.py

test-ray: $(VENV)/.dev $(VENV)/.ray  ## a sweep on a real Ray of two nodes on this machine, one of which is lost
	$(RUN) -m pytest -m ray tests/sweep/test_clusters.py

# Outside of .ci/run, since where the index has only the build for CUDA it downloads 1.7 GB
test-lowest:  ## the fast tests with the lowest versions that pyproject.toml allows, torch 2.11 among them
	$(PYTHON) -m venv $(VENV)-lowest
	$(PYTHON) tests/lowest.py > $(VENV)-lowest/lowest.txt
	@$(STEP) "installing the lowest versions: up to 2 GB to download" \
	  $(VENV)-lowest/bin/pip install -q -r $(VENV)-lowest/lowest.txt pytest pytest-timeout pytest-xdist selenium statsmodels
	$(VENV)-lowest/bin/pip install -q --no-deps -e .
	PATH="$(CURDIR)/$(VENV)-lowest/bin:$$PATH" PYTEST_ADDOPTS="-W ignore -o filterwarnings= -p no:cacheprovider" \
	  $(VENV)-lowest/bin/python -m pytest $(WORKERS) -m $(FAST)

parity: $(VENV)/.dev  ## Transformer-XL against transformers 4.35, in an environment of its own
	$(RUN) -m venv $(VENV)-parity
	$(RUN) -c 'import site; print(site.getsitepackages()[0])' > $$(echo $(VENV)-parity/lib/python*/site-packages)/core.pth
	$(VENV)-parity/bin/pip install -q --no-deps transformers==4.35.2 'huggingface_hub<1.0' 'tokenizers<0.19'
	$(VENV)-parity/bin/python -m pytest -W ignore -p no:cacheprovider tests/models/test_transformer_xl.py

mutate: $(VENV)/.dev  ## mutants of gates, blocks, lanes, optimisation and the rules of reports: which of them no test notices
	$(call extra,mutate,mutmut)
	OMP_NUM_THREADS=1 $(VENV)/bin/mutmut run --max-children 2
	$(VENV)/bin/mutmut results

clean:  ## remove the environment and what tools left behind; outputs/ stays
	rm -rf $(VENV) $(VENV)-parity $(VENV)-lowest mutants .pytest_cache .ruff_cache .mypy_cache .coverage *.egg-info

$(VENV)/.core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is older than Python 3.11; name another one, as in make $(MAKECMDGOALS) PYTHON=python3.12"; exit 2; }
	@mkdir -p $(VENV) && echo $$PPID > $(BEGUN)
	@$(INSTALL); if $(PYTHON) -c 'import torch' 2>/dev/null; then \
	  echo "keeping the torch that $(PYTHON) has"; \
	  $(PYTHON) -m venv --system-site-packages $(VENV) && grep -v '^torch==' constraints.txt > $(VENV)/constraints.txt; \
	else \
	  $(PYTHON) -m venv $(VENV) && cp constraints.txt $(VENV)/constraints.txt && \
	  $(STEP) "installing torch: 200 MB to download (1.7 GB where the index has only the build for CUDA), 0.9 GB on disk" \
	    install -c $(VENV)/constraints.txt torch; \
	fi
	@$(INSTALL); $(STEP) "installing what the project needs: 200 MB to download, 0.9 GB on disk" $(EDITABLE) .
	@touch $@ && rm $(BEGUN)

$(VENV)/.dev: $(VENV)/.core
	$(call extra,dev,the tools for tests: 40 MB to download and 0.15 GB on disk)
	@$(INSTALL); install --no-deps axe-playwright-python==0.1.8  # for its axe.min.js alone, without a second browser
	@touch $@

$(VENV)/.ray: $(VENV)/.core
	$(call extra,ray,Ray: 80 MB to download)
	@touch $@

$(VENV)/.bench: $(VENV)/.core
	$(call extra,bench,the implementations to compare with: 1 MB to download)
	@touch $@
