"""The program: where it is, and what it says."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any, Optional


class ForebayError(Exception):
    """The program refused or failed, or an argument cannot be given to it; the text is the message.

    ``exit_code``: 1 a check failed, 2 the input is wrong, 3 the machine lacks something, 4 interrupted; ``None`` if
    there is no program to start, or it did not answer.
    """

    def __init__(self, message: str, exit_code: Optional[int] = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def executable() -> str:
    """Path of the program that :func:`run` and :func:`sweep` start."""
    found = os.environ.get("FOREBAY") or _installed() or shutil.which("forebay")
    if found is None:
        raise ForebayError("the program forebay is not installed: `pip install .` in its source folder, or set FOREBAY")
    return found


@functools.lru_cache(maxsize=None)
def _installed() -> Optional[str]:
    """The program that was installed together with this package, if it was."""
    # Where `pip install --target` puts it.
    programs = [Path(__file__).parents[1] / "bin" / "forebay"]
    with contextlib.suppress(metadata.PackageNotFoundError):
        files = metadata.files("forebay") or []
        programs += [Path(file.locate()) for file in files if file.name == "forebay" and file.parent.name == "bin"]
    return next((os.path.realpath(path) for path in programs if os.access(path, os.X_OK)), None)


class ArgumentError(ForebayError, TypeError, ValueError):
    """An argument of :func:`forebay.run` or :func:`forebay.sweep` cannot be written on a command line."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 2)


def path_text(path: Any) -> str:
    """A path as the command line takes it."""
    try:
        return os.fsdecode(path)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"a path is a string or an os.PathLike, not {path!r}") from error


def parsed(text: str) -> Any:
    """The program's JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ForebayError(f"{executable()} did not answer in JSON: is it forebay? It wrote {text[:200]!r}") from error


def output(arguments: list[str]) -> tuple[str, str]:
    """What the program writes to standard output, and what it says beside it."""
    program = executable()
    try:
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise ForebayError(f"the program {program} cannot be started: {error.strerror}") from error
    except ValueError as error:
        # A zero character, or half of a surrogate pair.
        raise ArgumentError(f"an argument has a character that no command line can have: {error}") from error
    said = done.stderr.strip()
    if done.returncode < 0:
        raise ForebayError(said or f"forebay was ended by signal {-done.returncode}", done.returncode)
    if done.returncode != 0:
        raise ForebayError(said or f"forebay ended with exit code {done.returncode}", done.returncode)
    return done.stdout, said
