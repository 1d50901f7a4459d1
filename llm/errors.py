"""The user's faults, each a class of its own so that a program can tell them apart.

A message says what was found, what was expected and what to do, in one line. The programmer's faults are
assertions, not these.
"""


class LlmError(Exception):
    """Base of every error that a user's input, files or settings can cause."""


class UsageError(LlmError):
    """A setting that cannot be: an unknown name, a value out of range, two options at odds."""


class ModelError(LlmError):
    """A model file that cannot be opened, read, understood, or does not fit its partner."""


class MediaError(LlmError):
    """A picture or recording that cannot be read or used."""


class TemplateError(LlmError):
    """A chat template that is missing, does not compile, refuses the messages or runs too long."""


class ContextError(LlmError):
    """A prompt that does not fit the context. `n_prompt` rows were asked for, `n_ctx` are there."""

    def __init__(self, message: str, n_prompt: int, n_ctx: int) -> None:
        super().__init__(message)
        self.n_prompt, self.n_ctx = n_prompt, n_ctx


class NonFiniteError(LlmError):
    """NaN or infinity where the arithmetic cannot have produced it from a sound file; names the place."""
