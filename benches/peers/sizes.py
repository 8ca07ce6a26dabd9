#!/usr/bin/env python3
"""Writes 65,536 sample sizes [B] of mean 256 KiB as doubles: sizes.py lognormal|constant FILE."""
import math
import random
import struct
import sys

MEAN, SIGMA, COUNT = 262_144.0, 0.6, 65_536


def lognormal():
    draw = random.Random(42)
    raw = [math.exp(draw.gauss(-SIGMA * SIGMA / 2, SIGMA)) for _ in range(COUNT)]
    total = 0.0
    for value in raw:  # sum() rounds differently since Python 3.12
        total += value
    mean = total / COUNT
    return [MEAN * value / mean for value in raw]


kind, path = sys.argv[1:]
sizes = lognormal() if kind == "lognormal" else [MEAN] * COUNT
with open(path, "wb") as file:
    file.write(struct.pack(f"<{COUNT}d", *sizes))
