"""All tiny random models of architectures beyond llama and gemma3, by name."""

from tests import tiny_dense, tiny_mixed

CASES = tiny_dense.CASES | tiny_mixed.CASES
