"""The front door on tiny models: against the peer's answers, caching, limits, and files that do not fit."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mtmd
from llm.chat import MediaSlot
from llm.errors import ContextError, MediaError, ModelError, UsageError
from mtmd.media import Audio, Image
from mtmd.pipeline import GREEDY, Pipeline
from tests.mmproj import base, idefics3, qwen3a
from tests.mmproj.base import clip

Message = dict[str, Any]
TEXT = {"type": "text", "text": "what is it?"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny text model and all projectors."""
    path = tmp_path_factory.mktemp("tiny")
    base.text(path / "text.gguf", *idefics3.SPECIALS, *qwen3a.SPECIALS)
    idefics3.make(path / "idefics3.gguf")
    qwen3a.make(path / "qwen3a.gguf")
    return path


@pytest.fixture
def pipeline(folder: Path) -> Pipeline:
    return mtmd.load(folder / "text.gguf", folder / "idefics3.gguf")


def ask(image: Image, text: str = "what is it?") -> Message:
    return {"role": "user", "content": [{"type": "image", "image": image}, {"type": "text", "text": text}]}


def picture(width: int = 40, height: int = 150) -> Image:
    return Image(base.picture(width, height), f"{width}x{height}")


def test_stream_is_the_whole_answer(pipeline: Pipeline) -> None:
    whole = pipeline.chat([ask(picture())], stream=False, n_predict=12, sampling=GREEDY)
    assert whole.finish == "length" and whole.usage.completion_tokens == 12
    streamed = pipeline.chat([ask(picture())], n_predict=12, sampling=GREEDY)
    assert streamed.finish is None
    assert "".join(streamed) == whole.text == streamed.text
    assert streamed.finish == "length" and streamed.usage.completion_tokens == 12
    assert streamed.timings.decode > 0 and streamed.timings.load > 0


def test_closed_answer_is_interrupted(pipeline: Pipeline) -> None:
    answer = pipeline.chat([ask(picture())], sampling=GREEDY)
    first = next(answer)
    answer.close()
    assert list(answer) == [] and answer.text == first and answer.finish == "interrupted"


def test_new_question_ends_the_old_answer(pipeline: Pipeline) -> None:
    old = pipeline.chat([ask(picture())], sampling=GREEDY)
    next(old)
    new = pipeline.chat([ask(picture(60, 60))], stream=False, n_predict=3, sampling=GREEDY)
    assert old.finish == "interrupted" and list(old) == [] and new.finish == "length"


def test_follow_up_encodes_nothing_and_reads_only_the_new_b065(pipeline: Pipeline) -> None:
    first = pipeline.chat([ask(picture())], stream=False, n_predict=4, sampling=GREEDY)
    stages: list[tuple[str, int, int]] = []
    follow_up = pipeline.chat(
        [ask(picture()), {"role": "assistant", "content": first.text}, {"role": "user", "content": "why?"}],
        stream=False,
        n_predict=4,
        sampling=GREEDY,
        progress=lambda *stage: stages.append(stage),
    )
    (receipt,) = follow_up.media
    assert receipt.cached and receipt.seconds == 0
    assert follow_up.usage.cached >= first.usage.prompt_tokens
    assert {stage for stage, _, _ in stages} == {"prefill"}


def test_progress_counts_tiles_and_tokens(pipeline: Pipeline) -> None:
    stages: list[tuple[str, int, int]] = []
    messages = [ask(picture()), {"role": "assistant", "content": "?"}, ask(picture(60, 60))]
    answer = pipeline.chat(messages, n_predict=1, progress=lambda *stage: stages.append(stage))
    n_tile = sum(m.n_tile for m in answer.media)
    assert [s for s in stages if s[0] == "encode"] == [("encode", i, n_tile) for i in range(1, n_tile + 1)]
    assert stages[-1] == ("prefill", answer.usage.prompt_tokens, answer.usage.prompt_tokens)


def test_question_after_text_only_and_other_pictures_is_the_same_b063(pipeline: Pipeline) -> None:
    def answer() -> str:
        return pipeline.chat([ask(picture())], stream=False, n_predict=6, sampling=GREEDY).text

    fresh = answer()
    pipeline.chat([{"role": "user", "content": "hello"}], stream=False, n_predict=2)
    pipeline.chat([ask(picture(90, 20))], stream=False, n_predict=2)
    assert answer() == fresh


def test_prompt_that_does_not_fit_is_refused_before_encoding_b070_b083(folder: Path) -> None:
    p = mtmd.load(folder / "text.gguf", folder / "idefics3.gguf", n_ctx=128)
    stages: list[object] = []
    with pytest.raises(ContextError, match=r"takes 257 rows and the context holds 128") as error:
        p.chat([ask(picture(128, 128))] * 2, progress=lambda *stage: stages.append(stage))
    assert error.value.n_ctx == 128 and error.value.n_prompt > 256
    assert not stages
    fits = p.chat([ask(picture(100, 30))], stream=False, n_predict=1, sampling=GREEDY)
    assert fits.finish == "length"


def test_answer_ends_where_the_context_does(folder: Path) -> None:
    p = mtmd.load(folder / "text.gguf", n_ctx=64)
    answer = p.chat([{"role": "user", "content": "x"}], stream=False, sampling=GREEDY, stop=["\0never"])
    assert answer.finish == "length"
    assert answer.usage.prompt_tokens + answer.usage.completion_tokens == 64 + 1  # the last is not in it


def test_kind_without_input_is_refused_b121(folder: Path) -> None:
    sound = {"role": "user", "content": [{"type": "audio", "audio": clip(0.5)}]}
    seeing = mtmd.load(folder / "text.gguf", folder / "idefics3.gguf")
    with pytest.raises(MediaError, match="no audio input; its mmproj takes only image"):
        seeing.chat([sound])
    text_only = mtmd.load(folder / "text.gguf")
    for message, kind in ((ask(picture()), "image"), (sound, "audio")):
        with pytest.raises(MediaError, match=f"no {kind} input; start it with --mmproj"):
            text_only.chat([message])


def test_mmproj_of_another_width_is_refused_b090_b091(folder: Path, tmp_path: Path) -> None:
    path = idefics3.make(tmp_path / "wide.gguf", n_out=96, meta={"clip.vision.projection_dim": base.N_EMBD})
    with pytest.raises(ModelError, match=r"wide\.gguf gives rows of 96, .*text\.gguf takes 64"):
        mtmd.load(folder / "text.gguf", path)


def test_projection_dim_is_not_believed_b091(folder: Path, tmp_path: Path) -> None:
    path = idefics3.make(tmp_path / "mmproj.gguf", meta={"clip.vision.projection_dim": 4 * base.N_EMBD})
    assert mtmd.load(folder / "text.gguf", path).kinds == ("image",)


def test_swapped_files_give_a_hint_b093(folder: Path) -> None:
    with pytest.raises(ModelError, match="pass it with --mmproj"):
        mtmd.load(folder / "idefics3.gguf", folder / "text.gguf")
    with pytest.raises(ModelError, match="pass it with -m"):
        mtmd.load(folder / "text.gguf", folder / "text.gguf")


def test_settings_are_checked(folder: Path, pipeline: Pipeline) -> None:
    with pytest.raises(UsageError, match="compat is 'hf'"):
        mtmd.load(folder / "text.gguf", compat="hf")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="without the text model"):
        mtmd.load(mmproj=folder / "idefics3.gguf")
    with pytest.raises(UsageError, match="n_predict is -2"):
        pipeline.chat([ask(picture())], n_predict=-2)


def test_embed_gives_the_rows_of_each_tile(pipeline: Pipeline) -> None:
    rows = pipeline.embed([picture(40, 150), base.picture(128, 128)])
    assert [r.shape for r in rows] == [(4, base.N_EMBD)] * (9 + 17)
    one = pipeline.embed(base.picture(40, 150))
    np.testing.assert_array_equal(np.concatenate(one), np.concatenate(rows[:9]))


def test_spans_show_what_the_decoder_gets(pipeline: Pipeline) -> None:
    part = {"type": "image", "image": picture(128, 20)}
    views = pipeline.spans(["hi <global-img>", part])
    assert [v.kind for v in views] == ["text", "image"] * 5 + ["text"]
    assert all((v.ids is None) == (v.kind == "image") == (v.rows is not None) for v in views)
    positions = np.concatenate([v.positions for v in views], axis=1)
    np.testing.assert_array_equal(positions, np.arange(positions.shape[1])[None])
    token = pipeline.model.tokenizer.token_id("<global-img>")
    assert views[0].ids is not None and token in views[0].ids


def test_completing_the_chats_own_prompt_gives_the_chats_answer(pipeline: Pipeline) -> None:
    image = picture()
    chat = pipeline.chat([ask(image)], stream=False, n_predict=8, sampling=GREEDY)
    slots = pipeline.template.encode([{"role": "user", "content": [{"type": "media"}, TEXT]}])
    parts = [{"type": "image", "image": image} if isinstance(p, MediaSlot) else p for p in slots]
    raw = pipeline.complete(parts, n_predict=8, sampling=GREEDY)
    assert "".join(raw) == chat.text and raw.usage.prompt_tokens == chat.usage.prompt_tokens
    as_text = [pipeline.model.tokenizer.decode(p, special=True) if isinstance(p, list) else p for p in parts]
    assert "".join(pipeline.complete(as_text, n_predict=8, sampling=GREEDY)) == chat.text


def test_count_is_what_the_chat_will_take_and_encodes_nothing(pipeline: Pipeline) -> None:
    n = pipeline.count([ask(picture())])
    answer = pipeline.chat([ask(picture())], n_predict=1)
    assert n == answer.usage.prompt_tokens and not answer.media[0].cached


def test_token_ids_are_checked(pipeline: Pipeline) -> None:
    with pytest.raises(UsageError, match="the model has 0 to"):
        pipeline.complete([[1, 10**6]])


def test_library_hears_long_clips_in_windows_b129(folder: Path) -> None:
    p = mtmd.load(folder / "text.gguf", folder / "qwen3a.gguf")
    (receipt,) = p.chat(
        [{"role": "user", "content": [{"type": "audio", "audio": Audio(clip(31.0).samples, 16000)}]}],
        n_predict=1,
    ).media
    assert (receipt.n_tile, receipt.n_tok, receipt.original) == (4, 403, 31.0)


def test_import_is_quick_and_checks_whose_llm_it_gets(tmp_path: Path) -> None:
    listing = "import sys, mtmd; print('numpy' in sys.modules, 'numba' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    assert run.stdout == "False False\n"
    (tmp_path / "llm").mkdir()
    (tmp_path / "llm" / "__init__.py").write_text("")
    trial = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import mtmd"
    run = subprocess.run([sys.executable, "-c", trial], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert f"finds {tmp_path / 'llm' / '__init__.py'}" in run.stderr and "pip uninstall llm" in run.stderr
