"""A model's chat template: OpenAI-style messages -> token ids, with slots where media go."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from llm.chat.builtin import BUILTIN, builtin_for
from llm.chat.guard import Guard, private_characters, unused_characters
from llm.chat.turns import STYLES, SYSTEM, Message, Turn, forms, read_turns
from llm.errors import TemplateError
from llm.gguf import GGUF
from llm.tokenizer import Tokenizer
from llm.tokenizer.vocab import TokenType

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MediaSlot:
    """The place of a medium: `index` counts the media of all messages from 0."""

    index: int


class ChatTemplate:
    """Renders messages and tokenises the result.

    Only what the template itself writes is read as control tokens; whatever stands in a message stays text.
    """

    def __init__(self, source: str, tokenizer: Tokenizer) -> None:
        from llm.chat.sandbox import Compiled  # Jinja takes 70 ms to import

        self.source, self.tokenizer = source, tokenizer
        self._compiled = Compiled(source)

    @classmethod
    def from_gguf(cls, gguf: GGUF, tokenizer: Tokenizer, override: str | None = None) -> "ChatTemplate":
        """The template in the file, or `override`: a built-in one's name or a template's source.

        A file without a template gets the built-in one that its vocabulary suggests, with a warning. Raises
        TemplateError when there is none or it does not compile.
        """
        source = override or gguf.meta.get("tokenizer.chat_template")
        if not source:
            name = builtin_for(tokenizer)
            if name is None:
                raise TemplateError(
                    f"{gguf.path} has no chat template: pass --chat-template-file or --chat-template with "
                    f"one of {', '.join(BUILTIN)} (vicuna for LLaVA, deepseek for DeepSeek-VL)"
                )
            log.warning("%s has no chat template: using the built-in %r", gguf.path, name)
            return cls(BUILTIN[name], tokenizer)
        source = str(source)
        if source not in BUILTIN and "{" not in source:
            raise TemplateError(f"there is no built-in chat template {source!r}, only {', '.join(BUILTIN)}")
        return cls(BUILTIN.get(source, source), tokenizer)

    def encode(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool = True,
        add_special: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> list[list[int] | MediaSlot]:
        """Runs of token ids and media slots, in order.

        A message's content is text, None, or a list of {"type": "text", "text": ...} and {"type": "media"}.
        With `add_special` the ids start with BOS if the vocabulary wants one. `variables` are those of the
        template (enable_thinking, tools). Raises UsageError for malformed messages, TemplateError for what it
        takes in no form.
        """
        turns = read_turns(messages)
        variables = variables or {}
        n_media = sum(part.is_media for turn in turns for part in turn.parts)
        guard, *marks = unused_characters(
            1 + n_media, [self.source, *_strings(messages), *_strings(variables)]
        )
        numbered = iter(marks)
        turns = [self._guarded(turn, guard, numbered) for turn in turns]
        fixed = {
            **self._tokens,
            **_map_strings(variables, lambda text: self._guard.protect(text, guard)),
            "add_generation_prompt": add_generation_prompt,
        }
        return self._tokenise(self._render(turns, fixed, marks), guard, marks, add_special)

    def _guarded(self, turn: Turn, guard: str, marks: Iterable[str]) -> Turn:
        # Templates look for <think> and the like in the assistant's words, and the model wrote these itself.
        protect = (self._guard if turn.role == "assistant" else self._strict_guard).protect
        numbered = iter(marks)
        parts = [
            replace(part, text=next(numbered) if part.is_media else protect(part.text, guard))
            for part in turn.parts
        ]
        return replace(turn, parts=parts, fields=_map_strings(turn.fields, lambda text: protect(text, guard)))

    def _render(self, turns: list[Turn], variables: Mapping[str, Any], marks: list[str]) -> str:
        """The text in the first form and style that keeps all that was said; media come once, in order."""
        from llm.chat.sandbox import MAX_SECONDS, ExhaustedError, RefusedError

        known, deadline = set(marks), time.monotonic() + MAX_SECONDS
        partial: str | None = None
        errors: list[TemplateError] = []
        for form in forms(turns):
            for style in STYLES:
                try:
                    text = self._compiled.render({**variables, "messages": list(map(style, form))}, deadline)
                except ExhaustedError:
                    raise
                except TemplateError as e:
                    errors.append(e)
                    continue
                if [c for c in private_characters(text) if c in known] != marks:
                    continue
                if _says_all(text, turns):
                    return text
                partial = partial or text
        if partial is not None:
            return partial
        error = next((e for e in errors if isinstance(e, RefusedError)), errors[0] if errors else None)
        if isinstance(error, RefusedError):
            raise error
        error = error or TemplateError("the chat template leaves out media or repeats them")
        name = builtin_for(self.tokenizer) or "chatml"
        calls = variables.get("tools") or any(turn.fields.get("tool_calls") for turn in turns)
        if calls or self.source == BUILTIN[name]:  # built-in ones know nothing of tools
            raise error
        log.warning("%s: using the built-in %r (--chat-template names another)", error, name)
        return ChatTemplate(BUILTIN[name], self.tokenizer)._render(turns, variables, marks)

    def _tokenise(
        self, text: str, guard: str, marks: list[str], add_special: bool
    ) -> list[list[int] | MediaSlot]:
        tokenizer = self.tokenizer
        run: list[int] = []
        out: list[list[int] | MediaSlot] = [run]
        n_media = 0
        for part in tokenizer.split(text):
            if isinstance(part, int):
                run.append(part)
                continue
            pieces = _split_at(part.replace(guard, ""), marks[n_media:])
            for i, piece in enumerate(pieces):
                if i:
                    run = []
                    out += [MediaSlot(n_media), run]
                    n_media += 1
                if piece:
                    run += tokenizer.encode_plain(piece)
        assert n_media == len(marks), (n_media, len(marks))
        first = out[0]
        if add_special and tokenizer.add_bos and tokenizer.bos is not None and isinstance(first, list):
            first[:0] = [tokenizer.bos] * (first[:1] != [tokenizer.bos])
        return [piece for piece in out if piece]

    @cached_property
    def _tokens(self) -> dict[str, str]:
        vocab = self.tokenizer.vocab
        named = {"bos_token": vocab.bos, "eos_token": vocab.eos, "unk_token": vocab.unk}
        return {name: "" if tok is None else vocab.tokens[tok] for name, tok in named.items()}

    @cached_property
    def _guard(self) -> Guard:
        """Protects control tokens."""
        vocab = self.tokenizer.vocab
        return Guard(vocab.tokens[tok] for tok in vocab.of_type(TokenType.CONTROL, TokenType.UNKNOWN))

    @cached_property
    def _strict_guard(self) -> Guard:
        """Protects those and the user-defined tokens that this template gives a meaning to."""
        vocab = self.tokenizer.vocab
        tokens = [vocab.tokens[tok] for tok in vocab.of_type(TokenType.USER_DEFINED)]
        return Guard([*self._guard.tokens, *(t for t in tokens if t.strip() and t in self.source)])


def _says_all(text: str, turns: Iterable[Turn]) -> bool:
    """Whether all that was said stands in `text`; of an answer a template may leave out the thinking."""
    said = (part.text for turn in turns if turn.role in ("user", "assistant", *SYSTEM) for part in turn.parts)
    return all(words.rpartition("</think>")[2].strip() in text for words in said)


def _split_at(text: str, marks: Sequence[str]) -> list[str]:
    """`text` cut at those of `marks` that it holds; they come in order."""
    pieces = []
    for mark in marks:
        before, found, text_after = text.partition(mark)
        if not found:
            break
        pieces.append(before)
        text = text_after
    return [*pieces, text]


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """Nested lists and mappings with `change` applied to their strings; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _map_strings(inner, change) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_map_strings(inner, change) for inner in value]
    return value


def _strings(value: object) -> Iterable[str]:
    """All strings within nested lists and mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _strings(key)
            yield from _strings(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _strings(inner)
