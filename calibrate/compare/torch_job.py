"""A PyTorch job on a GPU, watched by the hook: ResNet-50 in mixed precision on JPEGs that a DataLoader decodes.

    python torch_job.py [--output runs.csv] [--seconds 6] [--budget 80] [--runs 2:64:400:fit,14:64:256:fit,4:64:400]
    forebay validate --measured runs.csv --scenario torch_job.toml --profile calibration-gpu/profile.toml

Makes JPEGs of each width in a temporary directory, and trains for some seconds in each run (workers, batch, width of
the images in pixels; heights are three quarters of it). Runs marked `fit` tell how long steps and samples take; the
others are predicted. Images are decoded by Pillow, cropped at random, resized to 224 x 224 and normalised, as for
ImageNet. Adds a row to the output for each run as soon as it is known. Needs PyTorch and Pillow; without a GPU, it
trains on the CPU.
"""
import argparse
import os
import sys
import tempfile
import time

import numpy
import torch
from PIL import Image
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "hook"))
from forebay_hook import watch
from torch_networks import MODELS

# Half of these runs wait for their loaders, half do not.
RUNS = "2:64:400:fit,14:64:256:fit,4:64:400,8:64:400,14:64:400,6:32:256,10:128:256,12:96:400"
IMAGES = 400
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make_images(directory, width):
    """Writes images with as much detail as photographs have. Returns their paths and their mean size [B]."""
    height, random, paths = width * 3 // 4, numpy.random.default_rng(width), []
    for number in range(IMAGES):
        layers = [random.integers(0, 256, (max(2, height // scale), max(2, width // scale), 3), dtype=numpy.uint8)
                  for scale in (48, 8, 2)]
        layers = [numpy.asarray(Image.fromarray(layer).resize((width, height), Image.Resampling.BICUBIC), numpy.float32)
                  for layer in layers]
        pixels = (0.5 * layers[0] + 0.3 * layers[1] + 0.2 * layers[2]).clip(0, 255).astype(numpy.uint8)
        paths.append(os.path.join(directory, f"{width}-{number}.jpg"))
        Image.fromarray(pixels).save(paths[-1], quality=90)
    return paths, sum(map(os.path.getsize, paths)) / len(paths)


class Images(Dataset):
    """The images again and again, decoded and cropped anew each time."""

    MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
    SPREAD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)

    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        # More than any run takes: no run comes to the end of an epoch.
        return 10_000_000

    def __getitem__(self, index):
        image = Image.open(self.paths[index % len(self.paths)]).convert("RGB")
        share = float(torch.empty(1).uniform_(0.5, 1.0))
        width, height = (max(1, int(side * share ** 0.5)) for side in image.size)
        left, top = (int(torch.randint(a - b + 1, ())) for a, b in zip(image.size, (width, height)))
        image = image.resize((224, 224), Image.Resampling.BILINEAR, (left, top, left + width, top + height))
        pixels = torch.from_numpy(numpy.asarray(image).copy()).permute(2, 0, 1)
        return (pixels.float().div_(255) - self.MEAN) / self.SPREAD, index % 1000


def keys(workers, batch, width, size):
    """The scenario's keys of a run."""
    return {"job.batch": batch, "job.loader.pytorch.workers": workers, "dataset.images.sample_size": f"{size:.0f} B",
            "dataset.images.image.width": width, "dataset.images.image.height": width * 3 // 4}


def train(network, optimizer, batches, seconds):
    """Trains until the time is over. Each step waits for the device, so that it can be timed."""
    begin = None
    for inputs, targets in batches:
        inputs = inputs.to(DEVICE, non_blocking=True, memory_format=torch.channels_last)
        targets = targets.to(DEVICE, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = F.cross_entropy(network(inputs), targets)
        loss.backward()
        optimizer.step()
        loss.item()
        begin = begin or time.monotonic()
        if time.monotonic() - begin > seconds:
            break
    batches.close()


def read_run(text):
    workers, batch, width, *use = text.split(":")
    return int(workers), int(batch), int(width), use[0] if use else "check"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="runs.csv")
    parser.add_argument("--seconds", type=float, default=6.0, help="training of each run [s]")
    parser.add_argument("--budget", type=float, default=80.0, help="no run begins that would end later [s]")
    parser.add_argument("--runs", default=RUNS, help="WORKERS:BATCH:WIDTH, with :fit for runs to fit times on")
    options = parser.parse_args()
    runs = [read_run(text) for text in options.runs.split(",")]
    begin = time.monotonic()
    # Loaders decode beside the trainer, which needs few threads of its own.
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    with torch.device(DEVICE):
        network = MODELS["resnet50"][0](argparse.Namespace(channels_last=True)).train()
    optimizer = torch.optim.SGD(network.parameters(), 0.02, momentum=0.9)
    with tempfile.TemporaryDirectory() as directory:
        images = {width: make_images(directory, width) for width in sorted({run[2] for run in runs})}
        for workers, batch, width, use in runs:
            if time.monotonic() - begin + options.seconds > options.budget:
                print(f"not reached within {options.budget:g} s: {workers} workers, batch {batch}, images of {width}")
                continue
            paths, size = images[width]
            loader = DataLoader(Images(paths), batch, num_workers=workers, pin_memory=DEVICE == "cuda", drop_last=True)
            name = f"{workers} workers, batch {batch}, images of {width}"
            # The batches made ahead before the first step, and the choice of algorithms, are over then.
            watched = watch(loader, options.output, keys(workers, batch, width, size), use=use, name=name,
                            warm_up=2 * workers + 5)
            train(network, optimizer, watched, options.seconds)
            print(f"{name}: done after {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
