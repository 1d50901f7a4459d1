"""The page: a picture and a question, a recording and its transcript."""

from __future__ import annotations

import html
import os
from collections.abc import AsyncIterator
from typing import Any

import gradio as gr

from llm.sampling import Sampling
from mtmd.answer import Answer
from mtmd.prompt import Receipt
from mtmd.service import Service
from mtmd_gradio.stream import stream

DESCRIBE, TRANSCRIBE = "Describe this image.", "Transcribe the audio."
SAMPLING = Sampling(temperature=0.2)  # as mtmd-cli
CSS = ".receipt { font-size: 0.9em; opacity: 0.8; min-height: 1.5em }"

# Gradio frees its slots too early to count computations by them; the service's own queue does that.
QUEUE: dict[str, Any] = {"concurrency_id": "service", "concurrency_limit": None, "show_progress": "hidden"}

Shown = tuple[str, str]  # the answer, the line under it


class Page:
    """Handlers and layout; `service` answers."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def describe(self, picture: str | None, question: str) -> AsyncIterator[Shown]:
        """Stream the answer to `question` about the uploaded file `picture`."""
        if not picture:
            raise complaint("Drop, paste or take a picture first.")
        parts = [{"type": "image", "image": picture}, {"type": "text", "text": question.strip() or DESCRIBE}]
        async for shown in self._stream(parts, picture):
            yield shown

    async def transcribe(self, clip: str | None, recording: bool) -> AsyncIterator[Shown]:
        """Stream the transcript of the uploaded or recorded file `clip`."""
        if not clip:
            waiting = "The recording has not arrived yet: stop it and wait until its wave is shown."
            raise complaint(waiting if recording else "Drop or record a clip first.")
        parts = [{"type": "audio", "audio": clip}, {"type": "text", "text": TRANSCRIBE}]
        async for shown in self._stream(parts, clip):
            yield shown

    async def _stream(self, parts: list[dict[str, Any]], path: str) -> AsyncIterator[Shown]:
        async for shown in stream(self._service, [{"role": "user", "content": parts}], SAMPLING):
            if shown.error is not None:
                # the user knows the file by its name, not by the folder that it was uploaded to
                raise complaint(shown.error.replace(path, os.path.basename(path)))
            yield shown.text, receipt(shown.answer) if shown.answer else line(shown.status)

    def build(self) -> gr.Blocks:
        """Lay out the page."""
        page = gr.Blocks(title="mtmd", analytics_enabled=False, delete_cache=(600, 3600))
        with page:
            gr.Markdown(
                "# Look and listen\nWhat you give goes to the computer that runs this page, and nowhere else."
            )
            with gr.Tab("Picture"), gr.Row():
                self._picture_tab()
            with gr.Tab("Recording"), gr.Row():
                self._recording_tab()
        return page

    def _picture_tab(self) -> None:
        with gr.Column():
            picture = gr.Image(
                label="Picture",
                type="filepath",
                image_mode=None,
                sources=["upload", "clipboard", "webcam"],
                webcam_options=gr.WebcamOptions(mirror=False),
                buttons=[],
                height=320,
            )
            # Gradio would open the file itself, and say just "Error" when it cannot.
            picture.preprocess = uploaded  # type: ignore[method-assign]
            question = gr.Textbox(DESCRIBE, label="Question", lines=2)
            with gr.Row():
                ask = gr.Button("Ask", variant="primary")
                stop = gr.Button("Stop")
        with gr.Column():
            answer = gr.Textbox(
                label="Answer", elem_id="answer", lines=8, interactive=False, buttons=["copy"]
            )
            seen = gr.HTML(elem_classes="receipt")
        asking = gr.on(
            [ask.click, question.submit],
            self.describe,
            [picture, question],
            [answer, seen],
            api_name="describe",
            **QUEUE,
        )
        stop.click(_stopped, None, seen, cancels=asking, queue=False, api_visibility="private")

    def _recording_tab(self) -> None:
        with gr.Column():
            clip = gr.Audio(
                label="Recording",
                type="filepath",
                format=None,
                sources=["upload", "microphone"],
                editable=False,
                buttons=[],
                waveform_options=gr.WaveformOptions(sample_rate=48000),
            )
            recording = gr.State(False)
            with gr.Row():
                hear = gr.Button("Transcribe", variant="primary")
                stop = gr.Button("Stop")
        with gr.Column():
            transcript = gr.Textbox(
                label="Transcript", elem_id="transcript", lines=8, interactive=False, buttons=["copy"]
            )
            heard = gr.HTML(elem_classes="receipt")
        clip.start_recording(lambda: True, None, recording, api_visibility="private")
        clip.stop_recording(lambda: False, None, recording, api_visibility="private")
        hearing = hear.click(
            self.transcribe, [clip, recording], [transcript, heard], api_name="transcribe", **QUEUE
        )
        stop.click(_stopped, None, heard, cancels=hearing, queue=False, api_visibility="private")


def uploaded(payload: Any) -> str | None:
    """The uploaded file as it is, for mtmd.media to judge; that it is an upload Gradio has checked."""
    return (payload.path or payload.url) if payload else None


def complaint(text: str) -> gr.Error:
    """A message box; Gradio takes its text for HTML."""
    return gr.Error(html.escape(text), duration=None, print_exception=False)


def receipt(answer: Answer) -> str:
    """What the model saw or heard, and what it took."""
    t, n = answer.timings, answer.usage.completion_tokens
    took = f"{n} tokens in {t.encode + t.prefill + t.decode:.1f} s"
    notes = [note for r in answer.media for note in r.notes]
    return line(" · ".join([*map(_seen, answer.media), took, *notes]))


def line(text: str) -> str:
    """Plain text for a gr.HTML that screen readers follow."""
    return f'<div role="status">{html.escape(text)}</div>'


def _stopped() -> str:
    return line("stopped")


def _seen(r: Receipt) -> str:
    tokens = f"{r.n_tok} tokens" + (", from the cache" if r.cached else "")
    if isinstance(r.original, tuple) and isinstance(r.processed, tuple):
        sizes = f"{r.original[0]} x {r.original[1]} seen as {r.processed[0]} x {r.processed[1]}"
        return f"{sizes}, {r.n_tile} tile{'s' * (r.n_tile != 1)}, {tokens}"
    return f"{r.original:.1f} s heard, {tokens}"
