"""Flags that the programs share: llama.cpp's names for models and sampling, and how they are read."""
