"""YAML into pydantic models, with errors in a user's words: file, line, column, the value, what is allowed."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from baco.common.document import Path_, YamlDoc, load_yaml, parse_yaml, path_text
from baco.common.errors import InputError, did_you_mean
from baco.common.text import name_problem

__all__ = ["Name", "YamlDoc", "load_yaml", "parse_model", "parse_yaml"]

Model = TypeVar("Model", bound=BaseModel)
#: Errors of one file that are looked into.
_MOST_ERRORS = 100


def _checked_name(name: str) -> str:
    problem = name_problem(name)
    if problem:
        raise ValueError(f"the name {problem}")
    return name


#: A field for what people call something, see `baco.common.text`.
Name = Annotated[str, AfterValidator(_checked_name)]

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen_set": "a list",
    "dict": "a mapping of keys to values",
    "model": "a mapping of keys to values",
    "model_attributes": "a mapping of keys to values",
    "dataclass": "a mapping of keys to values",
    "finite": "a finite number",
}
#: Kinds that other languages spell in other ways.
_SPELT = (_KINDS["int"], _KINDS["float"], _KINDS["bool"])
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
    "multiple_of": ("multiple_of", "a multiple of"),
}


def parse_model(
    model: type[Model], doc: YamlDoc, at: Path_ = (), *, defaults: Mapping[str, Any] | None = None
) -> Model:
    """Validate the part of `doc` at path `at` as `model`, strictly (`true` is no number, `"1"` no digit).

    `defaults` are used for keys that the document does not give, nested mappings key by key.

    Raises one InputError for all that is wrong. It is about the most useful of the errors: unknown keys first, since
    a misspelt key explains the missing one, then the first in the file; the others are its `also`.
    """
    try:
        data = doc.get(at)
    except KeyError:
        raise InputError(f"missing key '{path_text(at)}'", location=doc.location(at)) from None
    if data is None:
        what = f"'{path_text(at)}' is empty" if at else "the file is empty"
        raise InputError(what, location=doc.location(at), hint=_keys_hint(model))
    try:
        # JSON mode is strict about types yet lets lists become tuples
        if defaults and isinstance(data, dict):
            data = _merge(defaults, data)
        return model.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        raise _explain(model, doc, at, data, error) from None
    except InputError as error:
        if error.location is not None:
            raise
        raise InputError(error.message, location=doc.location(at), hint=error.hint) from error


def _merge(defaults: Mapping[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    merged = {**defaults, **data}
    for key, value in data.items():
        below = defaults.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            merged[key] = _merge(below, value)
    return merged


def _keys_hint(model: type[BaseModel]) -> str:
    return "allowed keys: " + ", ".join(_keys(model))


def _keys(model: type[BaseModel]) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()]


def _explain(
    model: type[BaseModel], doc: YamlDoc, at: Path_, data: Any, error: ValidationError
) -> InputError:
    problems: list[tuple[Path_, ErrorDetails]] = []
    for details in error.errors(include_url=False, include_input=False):
        problems.append(((*at, *_data_path(data, details)), details))
    problems = _most_telling(problems)

    def order(item: tuple[Path_, ErrorDetails]) -> tuple[int, int, int]:
        place = doc.location(item[0])
        rank = {"extra_forbidden": 0, "missing": 2}.get(item[1]["type"], 1)
        return rank, place.line or 0, place.column or 0

    problems.sort(key=order)
    problems = list({path: (path, details) for path, details in reversed(problems)}.values())[
        ::-1
    ]  # one a place
    messages = [
        _message(model, doc, at, path, _value(data, path[len(at) :]), details)
        for path, details in problems[:_MOST_ERRORS]
    ]
    first = messages[0]
    return InputError(
        first.message, location=first.location, hint=first.hint, also=list(_unexplained(messages, problems))
    )


def _unexplained(messages: list[InputError], found: list[tuple[Path_, ErrorDetails]]) -> Iterator[InputError]:
    """All errors but the first, without missing keys that a misspelt one explains."""
    guesses = {
        (path[:-1], guess)
        for message, (path, details) in zip(messages, found, strict=False)
        if details["type"] == "extra_forbidden" and (guess := _guess(message))
    }
    for message, (path, details) in zip(messages[1:], found[1:], strict=False):
        if details["type"] != "missing" or (path[:-1], path[-1]) not in guesses:
            guess = _guess(message)
            # what is allowed was said already, or would fill the screen
            hint = f"did you mean '{guess}'?" if guess is not None else message.hint
            yield InputError(message.message, location=message.location, hint=hint)


def _guess(message: InputError) -> str | None:
    """The key that a misspelt one was taken for."""
    found = re.match("did you mean '([^']*)'", message.hint or "")
    return found[1] if found else None


def _most_telling(found: list[tuple[Path_, ErrorDetails]]) -> list[tuple[Path_, ErrorDetails]]:
    """The errors without those of which another says more: of a union's branches, the one that got further was meant.

    That is one further inside (unless something is missing there), and where the type is wrong one that found the
    type right, at the same place or inside. Files may hold as many errors as values: this takes linear time.
    """
    further: set[Path_] = set()
    right_type: set[Path_] = set()
    for path, details in found:
        if details["type"] != "missing":
            further.update(path[:length] for length in range(len(path)))
        if not details["type"].endswith("_type"):
            right_type.update(path[:length] for length in range(len(path) + 1))
    return [
        (path, details)
        for path, details in found
        if details["type"] == "extra_forbidden"
        or (path not in further and not (details["type"].endswith("_type") and path in right_type))
    ]


def _data_path(data: Any, details: ErrorDetails) -> Path_:
    """The error's location in the data, without the steps that pydantic adds for unions and functions."""
    path: list[str | int] = []
    loc = details["loc"]
    for i, part in enumerate(loc):
        if isinstance(data, dict):
            inside = part in data
        else:  # of a list's union, pydantic names the branch
            inside = isinstance(data, list) and isinstance(part, int) and 0 <= part < len(data)
        if inside:
            path.append(part)
            data = data[part]
        elif details["type"] == "missing" and i == len(loc) - 1:
            path.append(part)
    return tuple(path)


def _value(data: Any, path: Path_) -> Any:
    """What is at `path`; None for a missing key."""
    for part in path:
        data = data.get(part) if isinstance(data, dict) else data[part]
    return data


def _message(
    model: type[BaseModel], doc: YamlDoc, at: Path_, path: Path_, value: Any, details: ErrorDetails
) -> InputError:
    kind: str = details["type"]
    context: dict[str, Any] = details.get("ctx") or {}
    here = doc.location(path)
    annotations = list(_annotations(model, path[len(at) :]))
    name = _subject(path)
    if kind == "extra_forbidden":
        keys = [k for m in _models(_annotations(model, path[len(at) : -1])) for k in _keys(m)]
        return InputError(
            f"unknown key '{path[-1]}'",
            location=doc.location(path, key=True),
            hint=did_you_mean(str(path[-1]), keys),
        )
    if kind == "missing":
        return InputError(
            f"missing key '{path[-1]}'",
            location=here,  # of the mapping that lacks it
            hint=_allowed(annotations) or f"add '{path[-1]}: ...' here",
        )
    shown = _show(value)
    if kind in ("literal_error", "enum"):
        choices = list(_choices(annotations)) or [str(context.get("expected", ""))]
        return InputError(f"{name} cannot be {shown}", location=here, hint=did_you_mean(str(value), choices))
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        return InputError(
            f"{name} must be {words} {context[key]}, not {shown}", location=here, hint=_allowed(annotations)
        )
    if kind in ("value_error", "assertion_error"):
        return InputError(
            str(context.get("error", details["msg"])), location=here, hint=_allowed(annotations)
        )
    if kind in ("too_short", "too_long", "string_too_short", "string_too_long"):
        length = "at least" if "short" in kind else "at most"
        bound = context.get("min_length", context.get("max_length"))
        unit = "character" if kind.startswith("string") else "entry"
        plural = unit if bound == 1 else {"character": "characters", "entry": "entries"}[unit]
        return InputError(f"{name} must have {length} {bound} {plural}, not {shown}", location=here)
    for prefix, wanted in _KINDS.items():
        if kind.startswith(prefix + "_") and kind.split("_")[-1] in (
            "type",
            "parsing",
            "float",
            "number",
            "size",
        ):
            hint = _spelling(value, wanted == _KINDS["bool"]) if wanted in _SPELT else None
            hint = "; ".join(part for part in (hint, _allowed(annotations)) if part)
            return InputError(f"{name} must be {wanted}, not {shown}", location=here, hint=hint or None)
    text = details["msg"].removeprefix("Input ").removeprefix("should ").removeprefix("Should ")
    return InputError(
        f"{name} is wrong: it should {text}, not {shown}", location=here, hint=_allowed(annotations)
    )


#: What other languages, or YAML before 1.2, read as numbers.
_OTHER_NUMBERS = re.compile(
    r"[-+]?(\d[\d,' _]*[\d_](\.\d*)?|0[bB][01]+|0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|\d+(:[0-5]?\d)+(\.\d*)?)"
)


def _spelling(value: Any, truth: bool) -> str | None:
    """How to write what was meant, for text that some other language would not read as text; None for other values.

    `truth`: true or false is wanted, not a number.
    """
    if not isinstance(value, str) or len(value) > 100:
        return None
    if value.lower() in ("y", "yes", "on", "n", "no", "off"):
        return "write true or false" if truth else None
    try:
        float(value)
    except ValueError:
        if not _OTHER_NUMBERS.fullmatch(value):
            return None
        return "write it with digits only, as 1000; 0x3e8 is hexadecimal, 0o1750 octal"
    return "write the number without quotes"


def _subject(path: Path_) -> str:
    if not path:
        return "the content"
    return f"'{path[-1]}'" if isinstance(path[-1], str) else f"entry {path[-1] + 1} of {_subject(path[:-1])}"


def _show(value: Any) -> str:
    if value is None:
        return "empty"
    text = json.dumps(value) if isinstance(value, (bool, dict, list)) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _annotations(model: Any, path: Path_) -> Iterator[Any]:
    """The types that a model gives the value at `path`, `Annotated` kept, union members one by one."""
    todo: list[tuple[Any, Path_]] = [(model, path)]
    while todo:
        kind, rest = todo.pop(0)
        origin = get_origin(kind)
        if origin is Annotated and (rest or get_origin(get_args(kind)[0]) in (Union, types.UnionType)):
            todo.insert(0, (get_args(kind)[0], rest))
        elif origin in (Union, types.UnionType):
            todo[:0] = [(member, rest) for member in get_args(kind)]
        elif not rest:
            yield kind
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            for name, info in kind.model_fields.items():
                if rest[0] in (name, info.alias):
                    inner = Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
                    todo.append((inner, rest[1:]))
        elif isinstance(rest[0], int) and origin in (list, tuple, set, frozenset):
            todo.append((get_args(kind)[0], rest[1:]))
        elif isinstance(rest[0], str) and origin is dict:
            todo.append((get_args(kind)[1], rest[1:]))


def _plain(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _models(annotations: Iterator[Any]) -> Iterator[type[BaseModel]]:
    for kind in map(_plain, annotations):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield kind


def _choices(annotations: list[Any]) -> Iterator[str]:
    for kind in map(_plain, annotations):
        if get_origin(kind) is Literal:
            yield from map(str, get_args(kind))


def _allowed(annotations: list[Any]) -> str | None:
    """`allowed: 2 to 128` and the like, from the annotations' bounds."""
    parts = []
    for kind in annotations:
        plain = _plain(kind)
        if get_origin(plain) is Literal:
            parts.append(", ".join(map(str, get_args(plain))))
        elif isinstance(plain, type) and issubclass(plain, BaseModel):
            parts.append("a mapping of " + ", ".join(_keys(plain)))
        elif plain in (int, float, bool, str):
            parts.append(_range(plain, get_args(kind)[1:] if get_origin(kind) is Annotated else ()))
        elif get_origin(plain) in (list, tuple):
            inner = _allowed([get_args(plain)[0]])
            parts.append("a list, each entry " + inner.removeprefix("allowed: ") if inner else "a list")
    parts = list(dict.fromkeys(parts))
    return "allowed: " + ", or ".join(parts) if parts else None


def _range(kind: type, metadata: tuple[Any, ...]) -> str:
    bounds: dict[str, Any] = {}
    for item in (part for m in metadata for part in (m.metadata if isinstance(m, FieldInfo) else (m,))):
        for name in ("ge", "gt", "le", "lt", "multiple_of"):
            if getattr(item, name, None) is not None:
                bounds[name] = getattr(item, name)
    noun = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[kind]
    if "ge" in bounds and "le" in bounds:
        text = f"{noun} from {bounds['ge']} to {bounds['le']}"
    else:
        words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
        limits = [f"{word} {bounds[key]}" for key, word in words.items() if key in bounds]
        text = " ".join([noun, " and ".join(limits)]).strip()
    return text + (f", a multiple of {bounds['multiple_of']}" if "multiple_of" in bounds else "")
