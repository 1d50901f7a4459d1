"""One file for each projector that a GGUF can name; the registry of mtmd.projector finds them here."""
