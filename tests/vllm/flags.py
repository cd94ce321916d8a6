"""Prints the flags of `vllm serve`: those of its parser, and the bounds that the fields of its settings have."""

import inspect
import json
import re
import sys

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
    "parse_dataclass": "json",
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
    flags = {}
    for action in parser._actions:
        written = options.get(id(action), [])
        names = [name for name in written if name.startswith("--")]
        if not names:
            continue
        function, optional = inner(action.type or str)
        # Names that plug-ins add to are no choices of the parser, but of its help.
        listed = re.match(r"{(.*?)}", str(action.metavar))
        listed = listed[1].split(",") if listed else []
        choices = [str(choice) for choice in action.choices or listed]
        flags[names[0]] = {
            "aliases": [name for name in written if name != names[0]],
            "choices": choices,
            "default": default(action.default),
            "values": nargs(action),
            "type": NAMES.get(function.__name__, "text"),
            "optional": optional,
            "bounds": bounds(groups.get(id(action)), action.dest),
        }
    json.dump(flags, sys.stdout)


main()
