"""Loops of PyTorch on the CPU, drawn by a seed, that a DataLoader feeds with JPEGs: how well does forebay predict them?

    python torch_loops.py [--output loops.csv] [--number 30] [--runs 3] [--seconds 4] [--seed 1]
    forebay validate --measured loops.csv --scenario torch_loops.toml --profile PROFILE

PROFILE is that of `calibrate/plans/pytorch.toml` and of a plan that measures the cores, such as `loader.toml`. Each configuration has 0 to 4
workers, a batch, a size of images that Pillow decodes, and a step: a small convolutional network, several times on each batch. The
first two configurations are marked `fit`. Each configuration runs several times, in turns with the others; before each run its step is
timed alone, on a batch that is there. Its row has the median of the runs and of the steps alone. Needs PyTorch, Pillow and numpy.
"""
import argparse
import csv
import os
import random
import statistics
import sys
import tempfile
import time

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "hook"))
from forebay_hook import watch
from torch_job import make_images

SIDE = 224
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
SPREAD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


class Images(Dataset):
    """The images of files again and again, decoded anew each time, as `calibrate/plans/pytorch.toml` does."""

    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return 10_000_000

    def __getitem__(self, index):
        image = Image.open(self.paths[index % len(self.paths)]).convert("RGB")
        image = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        pixels = pixels.view(SIDE, SIDE, 3).permute(2, 0, 1).contiguous()
        return (pixels.float().div_(255) - MEAN).div_(SPREAD), index % 10


class Trainer:
    """A network that trains several times on each batch."""

    def __init__(self, repeats):
        nn = torch.nn
        self.repeats = repeats
        self.network = nn.Sequential(
            nn.Conv2d(3, 8, 7, stride=4), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(8 * 13 * 13, 10))
        self.optimizer = torch.optim.SGD(self.network.parameters(), 0.01)

    def step(self, images, labels):
        for _ in range(self.repeats):
            self.optimizer.zero_grad()
            torch.nn.functional.cross_entropy(self.network(images), labels).backward()
            self.optimizer.step()

    def alone(self, batch, seconds=1.0):
        """Returns the median time of a step on a batch that is there [s]."""
        images, labels = torch.randn(batch, 3, SIDE, SIDE), torch.zeros(batch, dtype=torch.long)
        times, begin = [], time.monotonic()
        while len(times) < 5 or time.monotonic() < begin + seconds:
            at = time.monotonic()
            self.step(images, labels)
            times.append(time.monotonic() - at)
        return statistics.median(times[1:])


def draw(number, seed):
    """Returns workers, batch, width of the images and repeats of each configuration; two to fit on come first."""
    chance = random.Random(seed)
    some = lambda: (chance.randint(0, 4), chance.choice([8, 16, 32]), chance.choice([160, 320, 640]), chance.choice([1, 2, 4, 8, 16]))
    return [(1, 16, 640, 1), (2, 16, 160, 16)] + [some() for _ in range(number)]


def run(trainer, paths, workers, batch, seconds, path, keys):
    loader = DataLoader(Images(paths), batch, num_workers=workers, drop_last=True)
    batches, begin = watch(loader, path, keys, warm_up=2 * workers + 3), None
    for count, (images, labels) in enumerate(batches):
        trainer.step(images, labels)
        begin = begin or time.monotonic()
        if time.monotonic() > begin + seconds and count > 2 * workers + 8:
            break
    batches.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="loops.csv")
    parser.add_argument("--number", type=int, default=30)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    configurations = draw(options.number, options.seed)
    with tempfile.TemporaryDirectory() as directory:
        images = {width: make_images(directory, width) for width in sorted({of[2] for of in configurations})}
        raw, rows, trainers = os.path.join(directory, "raw.csv"), [], {}
        for workers, batch, width, repeats in configurations:
            trainer = trainers.setdefault(repeats, Trainer(repeats))
            rows.append({
                "job.batch": batch, "job.loader.pytorch.workers": workers,
                "dataset.images.sample_size": f"{images[width][1]:.0f} B", "dataset.images.image.width": width,
                "dataset.images.image.height": width * 3 // 4})
        alone = [[] for _ in rows]
        for turn in range(options.runs):
            for of, keys, steps in zip(configurations, rows, alone):
                workers, batch, width, repeats = of
                steps.append(trainers[repeats].alone(batch))
                run(trainers[repeats], images[width][0], workers, batch, options.seconds, raw, keys)
            print(f"turn {turn + 1} of {options.runs} is done", flush=True)
        found = list(csv.DictReader(open(raw, newline="")))
    with open(options.output, "w", newline="") as file:
        writer = None
        for index, (of, keys) in enumerate(zip(configurations, rows)):
            runs = sorted(found[index::len(rows)], key=lambda row: float(row["samples_per_second"]))
            middle = runs[len(runs) // 2]
            name = "{} workers, batch {}, images of {}, {} repeats".format(*of)
            row = {"name": name, "use": "fit" if index < 2 else "check", **keys}
            row["job.model.step"] = f"{statistics.median(alone[index]) * 1e3:.3f} ms"
            row |= {key: middle[key] for key in ("samples_per_second", "stall", "next_time", "cores", "first_batch")}
            if writer is None:
                writer = csv.DictWriter(file, row)
                writer.writeheader()
            writer.writerow(row)


if __name__ == "__main__":
    main()
