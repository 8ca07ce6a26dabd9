"""A PyTorch loop on the CPU, watched by the hook and by PyTorch's profiler: `python example.py`.

Writes `runs.csv` (for `forebay validate --measured`) and `trace.json` (for `forebay import kineto`).
"""
import time

import torch
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Dataset

from forebay_hook import watch

BATCH, WORKERS, STEPS = 64, 2, 20


class Slow(Dataset):
    """Samples that take 2 ms each to load."""

    def __len__(self):
        return BATCH * STEPS

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((1, 28, 28), float(index % 10)), index % 10


def train(batches, after_step=lambda: None):
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    for images, labels in batches:
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimiser.step()
        after_step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    loader = DataLoader(Slow(), batch_size=BATCH, num_workers=WORKERS)
    train(watch(loader, "runs.csv", {"job.batch": BATCH, "job.loader.tf-queue.threads": WORKERS}))
    steps = schedule(wait=0, warmup=1, active=STEPS - 2, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps) as profiler:
        train(loader, profiler.step)
    profiler.export_chrome_trace("trace.json")
