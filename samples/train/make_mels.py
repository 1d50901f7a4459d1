"""Augment a clip set and store its log-mel windows: ``python make_mels.py CLIPS.npz DIR COPIES SEED``.

One array (n, N_MEL, 100 * chunks), float16, for each number of chunks, with the transcripts as JSON.
"""

import json
import os
import sys
from collections import defaultdict

import numpy as np

import preprocess
import speech


def main(clips: str, folder: str, copies: int, seed: int) -> None:
    """Write the windows of every clip in `copies` random surroundings (not those beyond one window)."""
    z = np.load(clips)
    samples, texts = z["samples"], [str(t) for t in z["texts"]]
    ends = np.cumsum(z["lengths"])
    rng = np.random.default_rng(seed)
    mels, said = defaultdict(list), defaultdict(list)
    for text, start, end in zip(texts, ends - z["lengths"], ends):
        for _ in range(copies):
            windows = preprocess.mel_windows(
                preprocess.log_mel(speech.augment(samples[start:end].astype(np.float32) / 32768, rng))
            )
            if len(windows) == 1:
                n = windows[0].shape[1] // preprocess.CHUNK
                mels[n].append(windows[0].astype(np.float16))
                said[n].append(text)
    os.makedirs(folder, exist_ok=True)
    for n in mels:
        np.save(os.path.join(folder, f"mel-{n}.npy"), np.stack(mels[n]))
        with open(os.path.join(folder, f"mel-{n}.json"), "w") as f:
            json.dump(said[n], f)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
