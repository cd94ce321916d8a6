"""Prints the flags of `vllm serve`: those of its parser, and the bounds and fields that its settings have."""

import dataclasses
import inspect
import json
import re
import sys
import typing

import vllm.config
from vllm.utils.argparse_utils import FlexibleArgumentParser

try:
    from vllm.entrypoints.common.cli_args import make_arg_parser
except ImportError:
    # Until 0.32.
    from vllm.entrypoints.launchers.cli_args import make_arg_parser

NAMES = {
    "int": "integer",
    "float": "number",
    "human_readable_int": "size",
    "human_readable_int_or_auto": "size_or_auto",
    "loads": "json",
    # Each of them is JSON for the fields of one class.
    "parse_dataclass": "object",
}
BOUNDS = ("ge", "gt", "le", "lt")


def inner(function):
    """Returns the function that reads a value, and whether it may be None. vLLM wraps one into another."""
    optional = False
    while function.__name__ in ("_optional_type", "_parse_type"):
        optional = optional or function.__name__ == "_optional_type"
        function = inspect.getclosurevars(function).nonlocals["return_type"]
    return function, optional


def bounds(group, name):
    """Returns the bounds of the field behind a flag. The group of the flag is named like the class."""
    fields = getattr(getattr(vllm.config, group or "", None), "__pydantic_fields__", {})
    metadata = fields[name].metadata if name in fields else []
    return {bound: value for part in metadata for bound in BOUNDS if (value := getattr(part, bound, None)) is not None}


def settings(function, action):
    """Returns the class whose fields the JSON of a flag has, if it has one: for the others, the field of the flag is named like it."""
    if function.__name__ == "parse_dataclass":
        return function.__defaults__[0]
    named = getattr(vllm.config, "".join(word.capitalize() for word in action.dest.split("_")), None)
    return named if function.__name__ == "loads" and dataclasses.is_dataclass(named) else None


def fields(settings):
    """Returns the fields of such a class, each of which its JSON may have, and no others."""
    config = getattr(settings, "__pydantic_config__", None) or {}
    if settings is None or config.get("extra") == "allow":
        return []
    return sorted(field.name for field in dataclasses.fields(settings) if field.init)


def kind(function, group, action):
    """Returns what a value is."""
    hint = getattr(getattr(vllm.config, group or "", None), "__annotations__", {}).get(action.dest)
    hints = {hint, typing.get_origin(hint), *typing.get_args(hint)}
    if function.__name__ == "union_dict_and_str":
        # It leaves to the settings what does not look like an object, and most of them take no text.
        return "text" if str in hints else "object"
    is_object = settings(function, action) or dict in {typing.get_origin(one) or one for one in hints}
    return "object" if function.__name__ == "loads" and is_object else NAMES.get(function.__name__, "text")


def registered():
    """Returns the names that vLLM looks up after it has parsed the flags. Plug-ins add others."""
    from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS
    from vllm.model_executor.model_loader import _LOAD_FORMAT_TO_MODEL_LOADER
    from vllm.reasoning import ReasoningParserManager
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    backends = [name for backend in AttentionBackendEnum for name in (backend.name, backend.name.lower())]
    return {
        "--attention-backend": backends,
        "--load-format": list(_LOAD_FORMAT_TO_MODEL_LOADER),
        "--mm-encoder-attn-backend": backends,
        "--quantization": list(QUANTIZATION_METHODS),
        "--reasoning-parser": ReasoningParserManager.list_registered(),
    }


def nargs(action):
    if action.nargs is None:
        return "1"
    return str(action.nargs)


def default(value):
    if isinstance(value, set):
        value = sorted(value)
    if value is not None and not isinstance(value, (str, int, float, list, tuple, dict)):
        # An object of settings has defaults of its own.
        return type(value).__name__
    return str(value)


def main():
    parser = make_arg_parser(FlexibleArgumentParser())
    groups = {id(action): group.title for group in parser._action_groups for action in group._group_actions}
    # Since 0.33, an action no longer lists the names that the help hides, such as `--no-enable-lora`.
    options = {}
    for option, action in parser._option_string_actions.items():
        options.setdefault(id(action), []).append(option)
    names_of = registered()
    flags = {}
    for action in parser._actions:
        written = options.get(id(action), [])
        names = [name for name in written if name.startswith("--")]
        if not names:
            continue
        function, optional = inner(action.type or str)
        # Names that plug-ins add to are no choices of the parser, but of its help.
        listed = re.match(r"{(.*?)}", str(action.metavar))
        listed = action.metavar if isinstance(action.metavar, list) else listed[1].split(",") if listed else []
        choices = [str(choice) for choice in action.choices or listed or names_of.get(names[0], [])]
        flags[names[0]] = {
            "aliases": [name for name in written if name != names[0]],
            "choices": choices,
            "default": default(action.default),
            "values": nargs(action),
            "type": kind(function, groups.get(id(action)), action),
            "fields": fields(settings(function, action)),
            "optional": optional,
            "bounds": bounds(groups.get(id(action)), action.dest),
        }
    json.dump(flags, sys.stdout)


main()
