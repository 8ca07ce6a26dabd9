"""Run forebay's simulations from Python and notebooks.

    import forebay

    report = forebay.run("mine.toml", {"job.loader.tf-queue.threads": 16})
    print(report["verdict"]["text"])

    rows = forebay.sweep("mine.toml")          # pandas.DataFrame(rows) makes a table of them

Figures are in seconds, bytes and shares from 0 to 1, as in ``forebay run --format json``.

The module starts the program ``forebay``: the file that the environment variable ``FOREBAY`` names, else the one
installed with this package, else the first on ``PATH``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from . import _shards
from ._program import ArgumentError, ForebayError, executable, output, parsed, path_text
from ._toml import setting

__all__ = ["ForebayError", "ForebayWarning", "executable", "run", "sweep"]

Scenario = Union[str, "os.PathLike[str]"]


class ForebayWarning(UserWarning):
    """What ``forebay sweep`` warns of. The warnings of ``run`` are in its report, as ``warnings``."""


def run(
    scenario: Scenario,
    overrides: Optional[Mapping[str, Any]] = None,
    *,
    profile: Optional[Scenario] = None,
    seed: Optional[int] = None,
    replications: Optional[int] = None,
    uncertainty: Optional[int] = None,
    verdict: Optional[str] = None,
    threads: Optional[int] = None,
    **more: Any,
) -> dict[str, Any]:
    """Simulate a scenario file and return its report.

    ``overrides`` changes keys of the scenario for this run, as ``--set`` does: its keys are dotted names, its values
    numbers, booleans, strings (``"3 ms"``), lists, or mappings for whole tables; ``None`` removes a key, as ``--unset``
    does. Keyword arguments do the same for names without hyphens; two underscores stand for a dot::

        forebay.run("mine.toml", {"job.loader.tf-queue.threads": 16}, job__batch=64)

    ``profile``, ``seed``, ``replications``, ``uncertainty``, ``verdict`` and ``threads`` are the options of
    ``forebay run`` with these names.

    Raises :class:`ForebayError` with the program's message where the scenario or an override is wrong, and for every other failure.
    """
    options = {
        "profile": profile,
        "seed": seed,
        "replications": replications,
        "uncertainty": uncertainty,
        "verdict": verdict,
        "threads": threads,
    }
    report, _ = output(["run", "--quiet", "--format=json", *_arguments(scenario, options, overrides, more)])
    answer: dict[str, Any] = parsed(report)
    return answer


def sweep(
    scenario: Scenario,
    overrides: Optional[Mapping[str, Any]] = None,
    *,
    vary: Optional[Mapping[str, Union[Iterable[Any], Mapping[str, Any]]]] = None,
    columns: Union[str, Iterable[str], None] = None,
    profile: Optional[Scenario] = None,
    uncertainty: Optional[int] = None,
    threads: Optional[int] = None,
    executor: Any = None,
    shards: int = 16,
    directory: Optional[Scenario] = None,
    **more: Any,
) -> list[dict[str, Any]]:
    """Simulate every point of a grid and return its rows, in the order of the grid.

    The grid is that of the scenario's ``[sweep]`` table, with the lists of ``vary`` in place of those for the same keys, or
    beside them::

        forebay.sweep("mine.toml", vary={"job.batch": [32, 64], "cluster.nodes": range(1, 5)})
        forebay.sweep("mine.toml", vary={"job.batch": {"from": 16, "to": 256}, "sample": {"sobol": 64}})

    A row has the values of the swept keys, the job's name and its figures; ``columns`` names the figures, as a list or
    as ``"all"``. ``overrides`` and keyword arguments change keys of the scenario at every point, as in :func:`run`.

    With an ``executor``, the points are cut into ``shards`` equal parts, each of which is a task of it: that of
    ``concurrent.futures``, of Dask (``client.get_executor()``), of ``mpi4py.futures``, Parsl or submitit. Each task starts
    the program of its own node, with one thread unless ``threads`` says more, and writes below ``directory``, which all nodes must
    see: by default a new one in the working directory. The shard of a lost worker is run again. After a failure, the same call
    with the same ``directory`` goes on with finished points.

    ``uncertainty`` is the number of runs of each point in place of replications, each with parameters sampled from the profile.

    Raises :class:`ForebayError` with the program's message where the scenario or an override is wrong.
    """
    if columns is not None and not isinstance(columns, str):
        columns = ",".join(_texts("columns", columns))
    options = {"columns": columns, "profile": profile, "uncertainty": uncertainty, "threads": threads}
    axes = [f"--vary={setting(key, _line(key, values))}" for key, values in _items("vary", vary)]
    if executor is not None:
        chosen = [] if columns is None else [f"--columns={columns}"]
        absolute = None if profile is None else os.path.abspath(path_text(profile))
        options = {"profile": absolute, "uncertainty": uncertainty, "threads": threads or 1}
        arguments = [*axes, *_arguments(os.path.abspath(path_text(scenario)), options, overrides, more)]
        collected: list[dict[str, Any]] = parsed(_shards.collected(executor, shards, directory, arguments, chosen))
        return collected
    rows, said = output(["sweep", "--format=json", *axes, *_arguments(scenario, options, overrides, more)])
    if said:
        warnings.warn(said, ForebayWarning, stacklevel=2)
    answer: list[dict[str, Any]] = parsed(rows)
    return answer


def _arguments(
    scenario: Scenario,
    options: Mapping[str, Any],
    overrides: Optional[Mapping[str, Any]],
    more: Mapping[str, Any],
) -> list[str]:
    """The command line after the command's name."""
    settings = dict(_items("overrides", overrides))
    settings.update((key.replace("__", "."), value) for key, value in more.items())
    given = [f"--{name}={_text(value)}" for name, value in options.items() if value is not None]
    changes = (f"--unset={_key(key)}" if value is None else f"--set={setting(key, value)}" for key, value in settings.items())
    return [*given, *changes, "--", path_text(scenario)]


def _text(value: Any) -> str:
    """An option's value as the command line takes it."""
    return path_text(value) if isinstance(value, (os.PathLike, bytes)) else str(value)


def _items(name: str, mapping: Any) -> list[tuple[Any, Any]]:
    """The pairs of a mapping; none for ``None``."""
    if mapping is None:
        return []
    if not isinstance(mapping, Mapping):
        raise ArgumentError(f"{name} maps keys to values, and is not {mapping!r}")
    return list(mapping.items())


def _line(key: Any, values: Any) -> Any:
    """What a line of ``[sweep]`` has: values that a key takes in turn, or a range, a condition or a sample, as a mapping."""
    if isinstance(values, Mapping):
        return values
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ArgumentError(f"vary: {key} takes a list of values or a range such as {{'from': 1, 'to': 16, 'steps': 4}}, not {values!r}")
    return list(values)


def _texts(name: str, values: Any) -> list[str]:
    """A list of strings."""
    if not isinstance(values, Iterable):
        raise ArgumentError(f"{name} is a string or a list of strings, not {values!r}")
    texts = list(values)
    if not all(isinstance(text, str) for text in texts):
        raise ArgumentError(f"{name} is a string or a list of strings, not {values!r}")
    return texts


def _key(key: Any) -> str:
    """A key to remove."""
    if not isinstance(key, str):
        raise ArgumentError(f"a key of a scenario is a string such as 'job.batch', not {key!r}")
    return key
