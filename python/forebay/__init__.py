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

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from ._program import ForebayError, executable, output
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

    Raises :class:`ForebayError` with the program's message where the scenario or an override is wrong.
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
    parsed: dict[str, Any] = json.loads(report)
    return parsed


def sweep(
    scenario: Scenario,
    overrides: Optional[Mapping[str, Any]] = None,
    *,
    vary: Optional[Mapping[str, Iterable[Any]]] = None,
    columns: Union[str, Iterable[str], None] = None,
    profile: Optional[Scenario] = None,
    threads: Optional[int] = None,
    **more: Any,
) -> list[dict[str, Any]]:
    """Simulate every point of a grid and return its rows, in the order of the grid.

    The grid is that of the scenario's ``[sweep]`` table, with the lists of ``vary`` in place of those for the same keys, or
    beside them::

        forebay.sweep("mine.toml", vary={"job.batch": [32, 64], "cluster.nodes": range(1, 5)})

    A row has the values of the swept keys, the job's name and its figures; ``columns`` names the figures, as a list or
    as ``"all"``. ``overrides`` and keyword arguments change keys of the scenario at every point, as in :func:`run`.

    Raises :class:`ForebayError` with the program's message where the scenario or an override is wrong.
    """
    if columns is not None and not isinstance(columns, str):
        columns = ",".join(columns)
    options = {"columns": columns, "profile": profile, "threads": threads}
    axes = [f"--vary={setting(key, list(values))}" for key, values in (vary or {}).items()]
    rows, said = output(["sweep", "--format=json", *axes, *_arguments(scenario, options, overrides, more)])
    if said:
        warnings.warn(said, ForebayWarning, stacklevel=2)
    parsed: list[dict[str, Any]] = json.loads(rows)
    return parsed


def _arguments(
    scenario: Scenario,
    options: Mapping[str, Any],
    overrides: Optional[Mapping[str, Any]],
    more: Mapping[str, Any],
) -> list[str]:
    """The command line after the command's name."""
    settings = dict(overrides or {})
    settings.update((key.replace("__", "."), value) for key, value in more.items())
    given = [f"--{name}={_text(value)}" for name, value in options.items() if value is not None]
    changes = (f"--unset={key}" if value is None else f"--set={setting(key, value)}" for key, value in settings.items())
    return [*given, *changes, "--", os.fspath(scenario)]


def _text(value: Any) -> str:
    """An option's value as the command line takes it."""
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
