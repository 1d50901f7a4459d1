"""What the sample model is trained on: answers, and facts that patches, image tokens and frames must tell."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

import data
import scenes
from model import Heads, Model

Stats = dict[str, list[float]]
WEIGHTS = {"two": 0.5, "text": 0.2}  # of the answer loss, by task (default 1)


@dataclass(frozen=True)
class Stage:
    """How a stage trains.

    talk: learn the answers; detach: the encoders learn from their dense losses only, not from the text model.
    """

    name: str
    minutes: float
    peak: float  # learning rates
    floor: float
    talk: bool = True
    detach: bool = False
    aux: float = 1.0  # weight of the dense losses


def lm_loss(
    net: Model,
    rows: tuple[Tensor, Tensor, Tensor],
    media: Tensor | None,
    topics: list[list[str]],
    stats: Stats,
) -> Tensor:
    """Cross-entropy on answer tokens; rows as from data.pad; records exact answers per topic in stats."""
    ids, labels, segs = rows
    h = net.text.hidden_packed(net.text.splice(ids[:, :-1], media), segs[:, :-1].contiguous())
    target = labels[:, 1:]
    on = target >= 0
    logits = net.text.logits(h[on]).float()
    loss = F.cross_entropy(logits, target[on])
    with torch.no_grad():
        good = torch.ones_like(target, dtype=torch.bool)
        good[on] = logits.argmax(-1) == target[on]
        runs = on.long().diff(dim=1, prepend=torch.zeros(len(on), 1, dtype=torch.long)).clamp_min(0).cumsum(1)
        for i, names in enumerate(topics):
            for k, name in enumerate(names):
                part = on[i] & (runs[i] == k + 1)
                stats[name].append(float(good[i][part].all()))
    return loss


def share(good: Tensor, on: Tensor) -> float | None:
    """Mean of good where on, None if nowhere."""
    return good[on].float().mean().item() if on.any() else None


def note(stats: Stats, **values: float | None) -> None:
    """Append the values that are there."""
    for k, v in values.items():
        if v is not None:
            stats[k].append(v)


def dense_loss(heads: Heads, feats: Tensor, labels: Tensor, stats: Stats) -> Tensor:
    """Per-patch losses, feats [B, n_patch, v_dim], labels [B, 5, GRID, GRID] as from labels.patch_labels.

    Background, shapes and characters weigh alike.  A patch of a shape must also tell the size and the place
    of the whole shape, the patch of a character its place in the text.
    """
    feats = feats.flatten(0, 1)
    cls, col, size, where, order = labels.permute(1, 0, 2, 3).flatten(1)
    logits = heads.cls(feats).float()
    each = F.cross_entropy(logits, cls.where(cls != 255, 0), reduction="none")
    shape, char = (cls >= 1) & (cls <= 6), (cls >= 7) & (cls != 255)
    loss = 0.4 * each[cls == 0].mean()
    loss = (
        loss
        + each[shape].sum() / shape.sum().clamp_min(16)
        + 1.5 * each[char].sum() / char.sum().clamp_min(16)
    )
    loss = loss + 0.5 * F.cross_entropy(
        heads.col(feats).float(),
        col.where(col != 255, -100),
        weight=torch.tensor([0.25] + [1.0] * len(scenes.COLOR_NAMES)),
    )
    inside, glyphs = feats[shape], feats[char]
    sizes, places, orders = (
        heads.size(inside).float(),
        heads.where(inside).float(),
        heads.order(glyphs).float(),
    )
    n, m = max(64, len(inside)), max(16, len(glyphs))
    loss = loss + 0.7 * F.cross_entropy(sizes, size[shape], reduction="sum") / n
    loss = loss + 0.5 * F.cross_entropy(places, where[shape], reduction="sum") / n
    loss = loss + 0.7 * F.cross_entropy(orders, order[char], reduction="sum") / m
    with torch.no_grad():
        good = logits.argmax(-1) == cls
        every = torch.ones_like(size[shape], dtype=torch.bool)
        note(
            stats,
            d_shape=share(good, shape),
            d_char=share(good, char),
            d_size=share(sizes.argmax(-1) == size[shape], every),
            d_where=share(places.argmax(-1) == where[shape], every),
            d_order=share(orders.argmax(-1) == order[char], torch.ones_like(order[char], dtype=torch.bool)),
        )
    return loss


def slot_loss(heads: Heads, tokens: Tensor, slots: Tensor, stats: Stats) -> Tensor:
    """Every image token, [B, n_tok, dim], tells which characters of a text lie in it, [B, n_tok, SLOTS]."""
    logits = heads.slots(tokens).float().view(*slots.shape, -1)
    each = F.cross_entropy(
        logits.flatten(0, 2), slots.where(slots != 255, 0).flatten(), reduction="none"
    ).view(slots.shape)
    char = (slots > 0) & (slots != 255)
    with torch.no_grad():
        note(stats, s_char=share(logits.argmax(-1) == slots, char))
    return 2.0 * each[slots == 0].mean() + each[char].sum() / char.sum().clamp_min(16)


def object_loss(
    heads: Heads, feats: Tensor, tokens: Tensor, objects: tuple[Tensor, Tensor, Tensor], stats: Stats
) -> Tensor:
    """Whole objects: describing and counting need them, patch labels do not tell them.

    Every patch tells the number of shapes in the picture and whether it is a shape's centre; every image
    token tells shape, colour, size and place of the shape whose centre lies in it (data.objects_of).
    """
    counts, centers, here = objects
    count = heads.count(feats).float()
    center = heads.center(feats).float().squeeze(-1)
    goal = counts[:, None].expand(-1, count.shape[1])
    loss = 0.4 * F.cross_entropy(count.flatten(0, 1), goal.flatten())
    loss = loss + F.binary_cross_entropy_with_logits(center, centers.flatten(1), pos_weight=torch.tensor(8.0))
    good, on = True, here[:, 0] > 0
    for k, head in enumerate(heads.objects):
        logits = head(tokens).float()
        each = F.cross_entropy(
            logits.flatten(0, 1), here[:, k].flatten(), ignore_index=-100, reduction="none"
        ).view(on.shape)
        loss = loss + 0.3 * (each[~on].mean() + each[on].sum() / on.sum().clamp_min(8))
        good = good & (logits.argmax(-1) == here[:, k])
    with torch.no_grad():
        note(stats, d_count=(count.argmax(-1) == goal).float().mean().item(), o_all=share(good, on))
    return loss


def ctc_loss(heads: Heads, feats: Tensor, targets: list[list[int]]) -> Tensor:
    """CTC over the audio frames."""
    logp = heads.ctc(feats).float().log_softmax(-1).transpose(0, 1)
    flat = torch.tensor([s for t in targets for s in t])
    return F.ctc_loss(
        logp,
        flat,
        torch.full((len(targets),), logp.shape[0]),
        torch.tensor([len(t) for t in targets]),
        zero_infinity=True,
    )


def batch_loss(net: Model, heads: Heads, batch: data.Batch, stage: Stage, stats: Stats) -> Tensor:
    """Loss of one batch (autocast to bfloat16 by the caller)."""
    task, media, loss = batch["task"], None, torch.zeros(())
    if "tiles" in batch:
        feats = net.vision.encode(batch["tiles"])
        tokens = net.vision.project(feats)
        loss = dense_loss(heads, feats, batch["labels"], stats) + slot_loss(
            heads, tokens, batch["slots"], stats
        )
        if "objects" in batch:
            loss = loss + object_loss(heads, feats, tokens, batch["objects"], stats)
        loss = loss * stage.aux
        if task == "dense":
            return loss
        tokens = net.vision.project(feats.detach()) if stage.detach else tokens
        media = torch.cat([tokens, tokens], 1).flatten(0, 1)  # detail tile == overview
    elif "mel" in batch:
        feats, tokens = net.audio(batch["mel"], stage.detach)
        c = ctc_loss(heads, feats, batch["targets"])
        stats["l_ctc"].append(c.item())
        loss = c * stage.aux
        media = tokens.flatten(0, 1)
    if stage.talk:
        lm = lm_loss(net, batch["ids"], media, batch["topics"], stats)
        stats["l_" + task].append(lm.item())
        loss = loss + lm * WEIGHTS.get(task, 1.0)
    return loss
