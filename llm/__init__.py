"""The text engine: GGUF language models on a CPU."""
