"""What came of a check as files: JUnit XML for a CI server, Markdown for a pull request, JSON for programs.

Owns the escaping: names and lines come from recordings and are shown as text in every format.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

from xla_insight.errors import ExportError
from xla_insight.facts import numbers
from xla_insight.facts.budget import CheckedLimit, GateResult
from xla_insight.report.text import plain_line

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!@$&])")


def gate_json(result: GateResult) -> str:
    """The result as one JSON text."""
    return json.dumps(result.to_json(), indent=2, allow_nan=False)


def junit_xml(result: GateResult) -> str:
    """One test case a limit, in the form that CI servers read."""
    suite = ElementTree.Element(
        "testsuite",
        name="xla-insight check",
        tests=str(len(result.limits)),
        failures=str(len(result.broken)),
        errors="0",
        skipped="0",
    )
    for checked in result.limits:
        case = ElementTree.SubElement(suite, "testcase", classname=plain_line(result.run), name=checked.name, time="0")
        if not checked.held:
            failure = ElementTree.SubElement(case, "failure", message=plain_line(checked.sentence), type="budget")
            failure.text = "\n".join(map(plain_line, (checked.sentence, *checked.reasons)))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def markdown_text(result: GateResult) -> str:
    """A table of all limits, and the causes of the broken ones below it."""
    broken = len(result.broken)
    title = f"{numbers.plural(broken, 'limit')} broken" if broken else "all limits held"
    lines = [f"### xla-insight check: {title}", "", f"Run {_code(result.run)}", ""]
    lines += ["| | limit | result |", "|---|---|---|", *map(_row, result.limits)]
    for checked in result.broken:
        if checked.reasons:
            lines += ["", f"**{_escaped(checked.name)}**", "", *(f"- {_escaped(reason)}" for reason in checked.reasons)]
    lines += ["", *(f"_{_escaped(note)}_" for note in result.notes)] if result.notes else []
    return "\n".join(lines) + "\n"


def write_file(path: Path, content: str) -> None:
    """Write a file of its own. Raises ExportError when that cannot be done."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise ExportError(f"cannot write {path} ({error.strerror})") from error


def _row(checked: CheckedLimit) -> str:
    return f"| {'held' if checked.held else '**broken**'} | {_escaped(checked.name)} | {_escaped(checked.sentence)} |"


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", plain_line(text))


def _code(text: str) -> str:
    return "`" + plain_line(text).replace("`", "'").replace("|", "/") + "`"
