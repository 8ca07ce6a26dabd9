"""Times the training steps of `calibrate/plans/gpu-eager.toml` in PyTorch on the same GPU.

    python torch_gpu.py [--models lenet5,resnet50,gpt-small] [--batches 1,8,64,256] [--steps 50]
                        [--samples calibration-eager/samples.jsonl]

Eager PyTorch, channels first, attention unfused as forebay has it, bf16 by autocast with parameters of 4
bytes. Prints model, precision, batch and the median of a step by CUDA events; with --samples also forebay's
median without a graph (`forebay calibrate --plan calibrate/plans/gpu-eager.toml --output calibration-eager`) and its
ratio to PyTorch's. Needs PyTorch with CUDA.
"""
import argparse
import contextlib
import json
import statistics

import torch
from torch import nn
from torch.nn import functional as F


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 (which has the stride), 1 x 1, and what goes round them."""

    def __init__(self, before, width, stride):
        super().__init__()
        after = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, after, 1, bias=False), nn.BatchNorm2d(after))
        self.direct = nn.Identity() if stride == 1 and before == after else nn.Sequential(
            nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        return F.relu(self.body(x) + self.direct(x), inplace=True)


class Encoder(nn.Module):
    """A block of a transformer, norms first, with every score kept."""

    def __init__(self, length, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.register_buffer("later", torch.ones(length, length).triu(1).bool())

    def forward(self, x):
        parts = self.qkv(self.before(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        seen = scores.masked_fill(self.later, float("-inf")).softmax(-1) @ v
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.think(self.after(x))


class Language(nn.Module):
    """A language model over bytes in GPT-2's arrangement."""

    def __init__(self, kinds, length, width, heads, blocks):
        super().__init__()
        self.token, self.place = nn.Embedding(kinds, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Encoder(length, width, heads) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, kinds)

    def forward(self, x):
        x = self.token(x) + self.place.weight
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


def lenet5():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5),
        nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(inplace=True),
        nn.Linear(120, 84), nn.ReLU(inplace=True), nn.Linear(84, 10))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    before = 64
    for stage, blocks in enumerate([3, 4, 6, 3]):
        for block in range(blocks):
            layers.append(Bottleneck(before, 64 << stage, 2 if stage and not block else 1))
            before = 4 * (64 << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 1000))


def images(channels, side, classes):
    return lambda batch: (torch.randn(batch, channels, side, side), torch.randint(classes, (batch,)))


def text(batch):
    return torch.randint(256, (batch, 1024)), torch.randint(256, (batch * 1024,))


MODELS = {
    "lenet5": (lenet5, images(1, 28, 10)),
    "resnet50": (resnet50, images(3, 224, 1000)),
    "gpt-small": (lambda: Language(256, 1024, 768, 12, 12), text),
}


def optimiser(name, net):
    if name == "gpt-small":
        return torch.optim.Adam(net.parameters(), 1e-3)
    return torch.optim.SGD(net.parameters(), 0.02, momentum=0.9)


def times(name, precision, batch, steps):
    """Seconds of each step."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    build, data = MODELS[name]
    net = build().cuda().train()
    x, y = (part.cuda() for part in data(batch))
    update = optimiser(name, net)
    narrow = torch.autocast("cuda", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()

    def step():
        update.zero_grad()
        with narrow:
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        update.step()

    for _ in range(10):
        step()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    for mark in marks[:-1]:
        mark.record()
        step()
    marks[-1].record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) * 1e-3 for a, b in zip(marks, marks[1:])]


def forebay(path):
    """Medians of forebay's steps by model, precision and batch: one learner, no graph."""
    found = {}
    for line in open(path, encoding="utf-8"):
        sample = json.loads(line)
        of = sample["settings"]
        if sample["probe"] != "step" or sample.get("excluded") or of.get("learners") != 1 or of.get("graph"):
            continue
        key = (sample["labels"]["model"], sample["labels"].get("precision"), int(of["batch"]))
        found.setdefault(key, []).append(sample["seconds"] / sample["operations"])
    return {key: statistics.median(seconds) for key, seconds in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--precisions", default="fp32,tf32,bf16")
    parser.add_argument("--batches", default="1,8,64,256")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--samples")
    given = parser.parse_args()
    ours = forebay(given.samples) if given.samples else {}
    print("# PyTorch", torch.__version__, "cuDNN", torch.backends.cudnn.version(), torch.cuda.get_device_name())
    print("model,precision,batch,pytorch_ms,forebay_ms,ratio")
    for name in given.models.split(","):
        for precision in given.precisions.split(","):
            for batch in map(int, given.batches.split(",")):
                try:
                    theirs = statistics.median(times(name, precision, batch, given.steps))
                except torch.cuda.OutOfMemoryError:
                    continue
                finally:
                    torch.cuda.empty_cache()
                own = ours.get((name, precision, batch))
                more = f"{own * 1e3:.4f},{own / theirs:.3f}" if own else ","
                print(f"{name},{precision},{batch},{theirs * 1e3:.4f},{more}", flush=True)


if __name__ == "__main__":
    main()
