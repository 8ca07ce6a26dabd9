"""Times the same training steps in PyTorch and in forebay's probe `step`, turn by turn, on the cores.

    python torch_step.py [--forebay PATH] [--rounds 3] [--threads 1,2] [--batch 8,32,128]

Needs PyTorch. Prints, for each model, batch and number of threads, the medians of both, and forebay's over
PyTorch's, of wall time and of core-seconds. Where others use the machine, core-seconds are the ones to trust.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

LENGTH, WIDTH, HEADS, TOKENS = 64, 128, 4, 256


class Block(nn.Module):
    """Two convolutions with batch norm and what goes round them."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after))
        self.direct = nn.Identity() if stride == 1 and before == after else nn.Sequential(
            nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        return F.relu(self.body(x) + self.direct(x))


class Encoder(nn.Module):
    """A block of a transformer, norms first."""

    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.think = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        parts = self.qkv(self.before(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.think(self.after(x))


class Language(nn.Module):
    """A language model over bytes."""

    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Embedding(TOKENS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(Encoder(), Encoder())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS)

    def forward(self, x):
        x = self.token(x) + self.place.weight
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


def lenet5():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, 10))


def resnet_small():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), Block(16, 16, 1),
        Block(16, 32, 2), Block(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def images(channels, side):
    return lambda batch: (torch.randn(batch, channels, side, side), torch.randint(10, (batch,)))


def text(batch):
    return torch.randint(TOKENS, (batch, LENGTH)), torch.randint(TOKENS, (batch * LENGTH,))


MODELS = {
    "lenet5": (lenet5, images(1, 28), lambda p: torch.optim.SGD(p, 0.02, momentum=0.9)),
    "resnet-small": (resnet_small, images(3, 32), lambda p: torch.optim.SGD(p, 0.02, momentum=0.9)),
    "transformer-small": (Language, text, lambda p: torch.optim.Adam(p, 1e-3)),
}


def pytorch(name, batch, threads, seconds=0.6):
    """Wall and core-seconds of each step: medians and mean."""
    build, feed, optimiser = MODELS[name]
    torch.set_num_threads(threads)
    model, (inputs, targets) = build(), feed(batch)
    optimiser = optimiser(model.parameters())

    def step():
        optimiser.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        optimiser.step()

    for _ in range(3):
        step()
    times, start, core = [], time.perf_counter(), time.process_time()
    while len(times) < 5 or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times), (time.process_time() - core) / len(times)


def forebay(program, batches, threads):
    """The same of the probe, by model, batch and threads."""
    plan = (f'budget = "40 s"\n[trials]\nlength = "300 ms"\nwarm_up = 1\nat_least = 3\nat_most = 3\n'
            f"[watch]\nothers = 1.0\nsteal = 1.0\n"
            f"[step]\nmodel = {json.dumps(list(MODELS))}\nbatch = {batches}\nthreads = {threads}\n")
    found = {}
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place)
        (path / "plan.toml").write_text(plan)
        subprocess.run([program, "--quiet", "calibrate", "--plan", path / "plan.toml", "--directory", place,
                        "--output", path / "out"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # On a busy machine it says that no trial counts (exit code 3): they are compared all the same.
        for line in (path / "out" / "samples.jsonl").read_text().splitlines():
            sample = json.loads(line)
            # Others on the machine take time of both alike: only warm-up is left out.
            if sample.get("excluded") == "warm-up":
                continue
            settings = sample["settings"]
            key = sample["labels"]["model"], int(settings["batch"]), int(settings["threads"])
            each = [sample[name] / sample["operations"] for name in ("seconds", "core_seconds")]
            found.setdefault(key, []).append(each)
    if not found:
        raise SystemExit(f"{program} measured nothing: is it forebay?")
    return {key: [statistics.median(part) for part in zip(*all)] for key, all in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--forebay", default="forebay")
    parser.add_argument("--rounds", type=int, default=3)
    numbers = lambda text: [int(part) for part in text.split(",")]
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--batch", type=numbers, default=[8, 32, 128])
    wanted = parser.parse_args()
    theirs, ours = {}, {}
    for _ in range(wanted.rounds):
        for key, each in forebay(wanted.forebay, wanted.batch, wanted.threads).items():
            ours.setdefault(key, []).append(each)
        for key in ours:
            theirs.setdefault(key, []).append(pytorch(*key))
    print(f"PyTorch {torch.__version__}, {wanted.rounds} rounds, forebay / PyTorch")
    print(f"{'model':18} {'batch':>5} {'threads':>7} {'forebay':>10} {'PyTorch':>10} {'wall':>6} {'core':>6}")
    middle = lambda all, part: statistics.median(each[part] for each in all)
    for key in sorted(ours, key=lambda key: (key[2], key)):
        wall, core = ([middle(of[key], part) for of in (ours, theirs)] for part in (0, 1))
        print(f"{key[0]:18} {key[1]:5} {key[2]:7} {1e3 * wall[0]:7.2f} ms {1e3 * wall[1]:7.2f} ms "
              f"{wall[0] / wall[1]:6.2f} {core[0] / core[1]:6.2f}")


if __name__ == "__main__":
    main()
