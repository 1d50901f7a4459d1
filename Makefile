PYTHON ?= python

.PHONY: check format test peer

check:  ## everything CI checks before the tests
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	lint-imports

format:
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

test:
	$(PYTHON) -m pytest

peer:  ## refresh the goldens; PEER: python of a venv with llama-cpp-python, MODELS: real weights
	$(PYTHON) -m tests.peer.refresh $(PEER) $(MODELS)
