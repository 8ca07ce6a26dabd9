"""Python values as TOML, for ``--set KEY=VALUE``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from ._program import ArgumentError


def setting(key: str, value: Any) -> str:
    """``key=value``, with the value in TOML's syntax."""
    if not isinstance(key, str):
        raise ArgumentError(f"a key of a scenario is a string such as 'job.batch', not {key!r}")
    try:
        return f"{key}={_value(value, key)}"
    except RecursionError as error:
        raise ArgumentError(f"{key}: the value holds itself, or is nested too deeply") from error
    except ArgumentError:
        raise
    except Exception as error:
        # What iterates, or stands for a number, is code of others.
        raise ArgumentError(f"{key}: {type(value).__name__} cannot be written as TOML: {error}") from error


def _value(value: Any, key: str) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_string(str(name))} = {_value(of, key)}" for name, of in value.items()) + " }"
    if isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray)):
        return "[" + ", ".join(_value(of, key) for of in value) + "]"
    # Scalars of NumPy know the plain value that they are.
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        return _number(float(value))
    raise ArgumentError(f"{key}: {value!r} is no number, boolean, string, list or mapping")


def _number(value: float) -> str:
    if not math.isfinite(value):
        return str(value)  # inf, -inf and nan, which TOML has too
    # TOML wants a digit after the point or an exponent: repr always has one of them.
    return repr(value)


def _string(text: str) -> str:
    """A basic string: JSON's escapes are TOML's, except for the delete character, which JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
