"""Bad usage in our own words: which option or command is wrong, what it takes, and the nearest right one.

Owns these sentences and what help pages say of an option's value. The library that reads the command line words its
errors for programmers ("Input should be a valid integer, unable to parse string as an integer"), each version another
way, so what went wrong is taken from the error's facts; where those are missing, its own sentence is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import PurePath
from typing import Any, get_args, get_origin

import typer

_NO_COMMAND = re.compile(r"No such command '(.*?)'\.", re.DOTALL)
_EXTRA = re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", re.DOTALL)
_BELOW = {"train": "workload"}
"""What the commands of a verb are called, where not that."""
_KINDS = {"int": "a whole number", "float": "a number", "bool": "yes or no"}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
_VALUES = {int: "NUMBER", float: "NUMBER", str: "TEXT"}


def complaint(error: typer.TyperException) -> str:
    """One sentence for an error of the command line."""
    option = getattr(error, "option_name", None)
    parameter = getattr(error, "param", None)
    cause: Any = error.__cause__
    message = error.format_message()
    if type(error).__name__ == "NoSuchOption" and isinstance(option, str):
        return no_option(option, _options(error))
    if parameter is not None and hasattr(cause, "errors") and cause.errors():
        return _wrong_value(_name(parameter), cause.errors()[0])
    if type(error).__name__ == "MissingParameter" and parameter is not None:
        return f"{_name(parameter)} is missing{_see_help(error)}"
    if type(error).__name__ == "BadOptionUsage" and isinstance(option, str) and "requires an argument" in message:
        return f"{option} needs a value{_see_help(error)}"
    unknown = _NO_COMMAND.match(message)
    if unknown is not None:
        return _no_command(unknown[1], _kind(error), _commands(error))
    if message.startswith("Missing command"):
        return f"name a {_kind(error)}; there are: {', '.join(_commands(error))}"
    extra = _EXTRA.match(message)
    if extra is not None:
        return f"too many arguments: {extra[1]}{_see_help(error)}"
    return message


def no_option(given: str, options: Iterable[str]) -> str:
    """That there is no such option, with the nearest ones that there are."""
    name = given.split("=", 1)[0]
    near = get_close_matches(name, sorted(options), n=2, cutoff=0.6)
    return f"there is no option {name}" + (f"; did you mean {' or '.join(near)}?" if near else "")


def _no_command(given: str, kind: str, commands: Sequence[str]) -> str:
    near = get_close_matches(given, commands, n=2, cutoff=0.6)
    hint = f"; did you mean {' or '.join(near)}?" if near else f"; there are: {', '.join(commands)}"
    return f"there is no {kind} {given!r}{hint}"


def _wrong_value(name: str, fault: dict[str, Any]) -> str:
    """What an option takes, from the kind of the fault."""
    given, kind = fault.get("input"), str(fault.get("type"))
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        return f"{name} must be {words} {fault['ctx'][key]}, not {given}"
    wanted = _KINDS.get(kind.partition("_")[0])
    if wanted is not None:
        return f"{name} takes {wanted}, not {given!r}"
    message = re.sub(r"^(Value error, |Input should be )", "", str(fault.get("msg"))).rstrip(".")
    choices = re.fullmatch(r"(.+) is not one of (.+)", message, re.DOTALL)
    if choices is not None:
        return f"{name} takes one of {choices[2].replace(chr(39), '')}, not {given!r}"
    return f"{name}: {message}"


def _name(parameter: Any) -> str:
    """What a person calls a parameter: its long option, or the word of an argument."""
    options = [name for name in getattr(parameter, "opts", ()) if name.startswith("--")]
    metavar = getattr(parameter, "metavar", None)
    return max(options, key=len) if options else str(metavar or getattr(parameter, "name", "an argument"))


def _see_help(error: Any) -> str:
    context = getattr(error, "ctx", None)
    return f"; see: {context.command_path} --help" if context is not None else ""


def _kind(error: Any) -> str:
    return _BELOW.get(str(getattr(getattr(error, "ctx", None), "info_name", "")), "command")


def _commands(error: Any) -> list[str]:
    context = getattr(error, "ctx", None)
    return list(getattr(getattr(context, "command", None), "commands", ()))


def _options(error: Any) -> list[str]:
    context = getattr(error, "ctx", None)
    return [] if context is None else option_names(context)


def option_names(context: Any) -> list[str]:
    """The long options of a command."""
    names = [name for parameter in context.command.get_params(context) for name in (*parameter.opts, *_off(parameter))]
    return [name for name in names if name.startswith("--")]


def _off(parameter: Any) -> Sequence[str]:
    return getattr(parameter, "secondary_opts", ())


def plain_values(command: Any, help_names: list[str]) -> None:
    """On the help pages of a command and those below it, name values as a person does, and none for a switch."""
    options = list(command.params)
    given = command.get_help_option(typer.Context(command, help_option_names=help_names))
    for option in [*options, *([given] if given is not None else [])]:
        kind = getattr(option, "param_type_name", "")
        if kind == "argument":
            option.display_type_rich = _nothing
        elif kind == "option" and getattr(option, "metavar", None) is None:
            option.metavar = _value(option)
    for below in getattr(command, "commands", {}).values():
        plain_values(below, help_names)


def _nothing(ctx: Any) -> None:
    """The type of an argument on its help page: its own words say what it is."""


def _value(option: Any) -> str | None:
    """The word for an option's value; None leaves it to the library."""
    if getattr(option, "is_flag", False):
        return ""
    descriptor = getattr(option, "type_descriptor", None)
    if descriptor is None or getattr(descriptor, "is_choice", False):
        return None
    kind = getattr(descriptor, "annotation", None)
    if get_origin(kind) is list:
        kind = get_args(kind)[0]
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return "PATH"
    return _VALUES.get(kind) if isinstance(kind, type) else None
