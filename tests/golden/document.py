"""The reference of the Python interface in `docs/python/`, a page a topic, from signatures and docstrings.

`python -m tests.golden.document DIR` writes the pages.
"""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

import baco
from baco.common.files import atomic_write, output_folder

#: File -> title, what it begins with, names in their order.
PAGES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "exploring": (
        "Exploring",
        "Searching a design space, and what was found.",
        (
            "explore",
            "Study",
            "Trial",
            "load_study",
            "Result",
            "Space",
            "cost",
            "CostTree",
            "Mapping",
            "Explanation",
            "KernelVerdict",
            "compare",
            "evaluate",
            "evaluate_tiles",
        ),
    ),
    "measuring": (
        "Measuring",
        "Designs simulated on the Verilog of their own accelerators.",
        ("validate", "measure"),
    ),
    "networks": (
        "Networks and accelerators",
        "What goes in.",
        (
            "network",
            "networks",
            "quantise",
            "QuantisedModel",
            "accelerator",
            "Accelerator",
            "verilog",
            "synthesise",
            "hand_over",
        ),
    ),
    "programs": (
        "Programs",
        "Layers, networks and kernels compiled, simulated, and compared with integers.",
        (
            *("gemm", "conv", "compile", "Compiled", "run", "Run", "simulate", "trace"),
            *("pipeline", "TensorPipeline", "TensorPipelineRun"),
        ),
    ),
    "systems": (
        "Systems",
        "Several accelerators and cores on one memory: what runs where when.",
        ("plan", "PlannedNetworks", "search_systems", "FoundSystems", "profile_layers", "ProfiledLayers"),
    ),
    "errors": (
        "Errors",
        "What a user can cause is a `BacoError`: one message with a place and a hint. Notebooks show the user's line and the "
        "message instead of a traceback.",
        ("BacoError", "InputError", "InfeasibleError", "StorageError"),
    ),
}


#: Classes whose objects users make themselves, by the signature of their class.
_MADE_BY_USERS = ("Study", "Space")


def pages() -> dict[str, str]:
    """Text of every page by the name of its file."""
    found = {f"{name}.md": _page(*page) for name, page in PAGES.items()}
    listed = "".join(f"* [{title}]({name}.md): {about}\n" for name, (title, about, _) in PAGES.items())
    head = "# The Python interface\n\n`import baco` gives the names on these pages, each loaded when it is first used.\n\n"
    more = (
        "* [Kernels](../tutorial-kernels.md): the block language.\n"
        "* [Formats](../formats.md) of files that are read and written.\n\n"
        "[A notebook](../tutorial-python.ipynb) goes through all of it on a small network.\n"
    )
    return {"index.md": head + listed + more} | found


def _page(title: str, about: str, names: tuple[str, ...]) -> str:
    parts = [f"# {title}\n\n{about}\n"]
    for name in names:
        parts.append(_section(name, getattr(baco, name)))
    return "\n".join(parts)


def _section(name: str, thing: Any) -> str:
    if not inspect.isclass(thing):
        return f"## `baco.{name}`\n\n```python\n{_signature(name, thing)}\n```\n\n{_text(thing)}\n"
    head = (
        f"```python\n{_signature(name, vars(thing)['__init__'])}\n```\n\n" if name in _MADE_BY_USERS else ""
    )
    parts = [f"## `baco.{name}`\n\n{head}{_text(thing)}\n"]
    for member, value in vars(thing).items():
        if isinstance(value, classmethod):
            value = value.__func__
        about = value.fget if isinstance(value, property) else getattr(value, "func", value)
        if member.startswith("_") or member == "of" or not inspect.isfunction(about) or not about.__doc__:
            continue
        if about is value:
            parts.append(
                f"### `{name}.{member}`\n\n```python\n{_signature(member, value)}\n```\n\n{_text(value)}\n"
            )
        else:
            result = str(inspect.signature(about).return_annotation)
            parts.append(f"### `{name}.{member}`: `{result}`\n\n{_text(about)}\n")
    if hasattr(thing, "model_fields"):
        rows = "".join(
            f"| `{field}` | {'' if info.is_required() else _default(info)} | {info.description} |\n"
            for field, info in thing.model_fields.items()
        )
        parts.insert(1, f"| field | default | meaning |\n|---|---|---|\n{rows}")
    return "\n".join(parts)


def _default(info: Any) -> str:
    return "" if info.default_factory is not None else f"`{info.default!r}`"


def _signature(name: str, function: Any) -> str:
    """A definition, a parameter a line where they do not fit on one."""
    signature = inspect.signature(function)
    shown: list[str] = []
    for one in signature.parameters.values():
        if one.name in ("self", "cls"):
            continue
        if one.kind is one.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        stars = "**" if one.kind is one.VAR_KEYWORD else ""
        default = "" if one.default is one.empty else f" = {one.default!r}"
        shown.append(f"{stars}{one.name}: {one.annotation}{default}")
    result = f" -> {signature.return_annotation}"
    text = f"{name}({', '.join(shown)}){result}"
    return (
        text if len(text) <= 100 else f"{name}(\n" + "".join(f"    {one},\n" for one in shown) + f"){result}"
    )


def _text(thing: Any) -> str:
    """A docstring as Markdown: sections become headings in bold, their entries lists."""
    lines: list[str] = []
    inside = False
    for line in (inspect.getdoc(thing) or "").splitlines():
        if re.fullmatch(r"(Args|Attributes|Raises|Returns|Columns):", line):
            lines += [f"**{line[:-1]}**", ""]
            inside = True
        elif inside and (entry := re.fullmatch(r"    (?! )([\w, *`/]+): (.*)", line)):
            lines.append(f"* `{entry[1]}`: {entry[2]}")
        elif inside and line.startswith("     "):
            lines.append(f"  {line.strip()}")
        else:
            inside = inside and line.strip() != "" and line.startswith(" ")
            lines.append(line)
    return "\n".join(lines)


def main() -> None:
    """Write the pages into the folder that is named."""
    folder = output_folder(sys.argv[1])
    for name, text in pages().items():
        atomic_write(folder / name, text)


if __name__ == "__main__":
    main()
