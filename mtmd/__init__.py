"""Pictures and recordings for GGUF language models."""
