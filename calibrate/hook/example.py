"""A PyTorch loop on the CPU, watched by the hook and by PyTorch's profiler: `python example.py`.

Writes `runs.csv`, a row for each number of workers (`forebay validate --measured runs.csv --scenario
example.toml` reads it), and `trace.json` of the last (for `forebay import kineto`).
"""
import time

import torch
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

from forebay_hook import watch

BATCH, STEPS = 32, 80
# Rows on which times are fitted: one that waits for its loader, one that does not.
FITTED = {1, 8}


class Slow(Dataset):
    """Samples that take 2 ms each to load."""

    def __len__(self):
        return BATCH * STEPS

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((1, 28, 28), float(index % 10)), index % 10


def lenet():
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, 10))


def train(batches, after_step=lambda: None):
    model = lenet()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    for images, labels in batches:
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimiser.step()
        after_step()


def keys(workers):
    """The scenario's keys of a run: PyTorch has two batches for each worker under way."""
    stage = "job.loader.stages.load"
    return {"job.batch": BATCH, f"{stage}.workers": workers, f"{stage}.buffer": f"{workers} batches"}


if __name__ == "__main__":
    torch.set_num_threads(1)
    for workers in (1, 2, 3, 4, 6, 8):
        loader = DataLoader(Slow(), batch_size=BATCH, num_workers=workers)
        use = "fit" if workers in FITTED else "check"
        train(watch(loader, "runs.csv", keys(workers), use=use, name=f"{workers} workers", warm_up=24))
    steps = schedule(wait=0, warmup=1, active=STEPS - 2, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps) as profiler:
        train(loader, profiler.step)
    profiler.export_chrome_trace("trace.json")
