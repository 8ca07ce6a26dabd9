"""Sweeps over an executor: each task makes a shard of the points, on whatever node it runs."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, Optional

from ._program import ArgumentError, ForebayError, output, path_text

# A worker that dies takes its shard with it. A shard that fails this often is not the workers' fault.
ATTEMPTS = 3


def make(shard: str, directory: str, arguments: Sequence[str]) -> str:
    """Make a shard of a sweep, such as ``"3/16"``, and return the path of its rows. Runs in a worker."""
    output(["sweep", "--quiet", f"--shard={shard}", f"--output={directory}", *arguments])
    number, count = shard.split("/")
    return os.path.join(directory, f"shard-{number.zfill(len(count))}-of-{count}.rows")


def collected(executor: Any, shards: int, directory: Optional[Any], arguments: Sequence[str], columns: Sequence[str]) -> str:
    """Make all shards of a sweep on ``executor``; return its rows as JSON."""
    if not isinstance(shards, int) or not 1 <= shards <= 10_000:
        raise ArgumentError(f"shards is a number from 1 to 10000, not {shards!r}")
    # Workers on other nodes see the working directory more often than /tmp.
    own = directory is None
    try:
        place = tempfile.mkdtemp(prefix="forebay-sweep-", dir=os.getcwd()) if own else os.path.abspath(path_text(directory))
        os.makedirs(place, exist_ok=True)
    except OSError as error:
        raise ArgumentError(f"the directory of shards cannot be created: {error}") from error
    try:
        _run(executor, [f"{number}/{shards}" for number in range(1, shards + 1)], place, arguments)
    finally:
        if own and not os.listdir(place):
            os.rmdir(place)
    rows, _ = output(["sweep", "--quiet", "--format=json", f"--collect={place}", *columns])
    if own:
        shutil.rmtree(place, ignore_errors=True)
    return rows


def _run(executor: Any, shards: Sequence[str], place: str, arguments: Sequence[str]) -> None:
    waiting = [(shard, 1, _submit(executor, shard, place, arguments)) for shard in shards]
    with _progress(len(shards)) as done:
        while waiting:
            later = []
            for shard, attempt, future in waiting:
                if not future.done():
                    later.append((shard, attempt, future))
                    continue
                try:
                    future.result()
                    done(1)
                except Exception as error:
                    # Wrong input is wrong on every node. What a node lacks (3), another may have; a code below 0 is a signal.
                    refused = isinstance(error, ForebayError) and error.exit_code == 2
                    if refused or attempt == ATTEMPTS:
                        _cancel(waiting)
                        what = f"shard {shard}: {error}"
                        raise ForebayError(what if refused else _kept(what, place), getattr(error, "exit_code", None)) from error
                    later.append((shard, attempt + 1, _submit(executor, shard, place, arguments)))
            if len(later) == len(waiting):
                time.sleep(0.05)
            waiting = later


def _submit(executor: Any, shard: str, place: str, arguments: Sequence[str]) -> Any:
    try:
        return executor.submit(make, shard, place, arguments)
    except Exception as error:
        # A pool of processes takes no task any more when one of its processes was killed.
        raise ForebayError(_kept(f"the executor takes no more tasks: {error}", place)) from error


def _cancel(waiting: Sequence[Any]) -> None:
    for _, _, future in waiting:
        with contextlib.suppress(Exception):
            future.cancel()


def _kept(what: str, place: str) -> str:
    kept = f"; finished points are kept: go on with directory={place!r}" if os.listdir(place) else ""
    return what + kept


def _progress(shards: int) -> Any:
    """A progress bar, where tqdm is installed and someone sees it."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return contextlib.nullcontext(lambda count: None)
    # Elsewhere tqdm itself finds out whether there is a terminal.
    bar = tqdm(total=shards, unit="shard", disable=False if "ipykernel" in sys.modules else None)

    class Bar:
        def __enter__(self) -> Any:
            return bar.update

        def __exit__(self, *_: object) -> None:
            bar.close()

    return Bar()
