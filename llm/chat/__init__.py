"""Chat templates: messages -> token ids with slots for media."""

from llm.chat.template import ChatTemplate, MediaSlot

__all__ = ["ChatTemplate", "MediaSlot"]
