"""Prints what vLLM takes (with `judge`, which of the values on stdin it refuses): the flags of `vllm serve` with the schemas of their settings, environment variables with what their values
are, and the names of connectors of KV caches."""

import dataclasses
import enum
import inspect
import json
import os
import re
import sys
import typing

import pydantic
import pydantic.json_schema
import vllm.config
from vllm import envs
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.utils.argparse_utils import FlexibleArgumentParser
from vllm.v1.kv_offload.factory import OffloadingSpecFactory

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
# What is kept of a schema.
KEYWORDS = ("type", "enum", "anyOf", "items", "properties", "additionalProperties") + (
    "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
OF_THE_ENGINE = ("LoadConfig", "ModelConfig", "ParallelConfig")


class Schemas(pydantic.json_schema.GenerateJsonSchema):
    """Leaves open what only Python knows: types without JSON, and functions that change a value before it is checked.
    The functions that vLLM wraps around a check only let None pass."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def anything(self, *_):
        return {}

    handle_invalid_for_json_schema = anything
    function_before_schema = anything
    function_plain_schema = anything

    def function_wrap_schema(self, schema):
        return {"anyOf": [self.generate_inner(schema["schema"]), {"type": "null"}]}


def compact(schema, definitions):
    """Returns a schema with definitions in their places, and without what says nothing about values."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        # Settings of the whole engine are in others for vLLM itself.
        return {} if name in OF_THE_ENGINE else compact(definitions[name], definitions)
    kept = {key: schema[key] for key in KEYWORDS if key in schema}
    if "const" in schema:
        kept["enum"] = [schema["const"]]
    if "enum" in kept:
        # The values say their type.
        kept.pop("type", None)
    for key, value in kept.items():
        if key == "properties":
            kept[key] = {name: compact(one, definitions) for name, one in value.items()}
        elif key == "anyOf":
            kept[key] = [compact(one, definitions) for one in value]
        elif isinstance(value, dict):
            kept[key] = compact(value, definitions)
    # An alternative that takes everything.
    if {} in kept.get("anyOf", []):
        return {}
    if isinstance(kept.get("additionalProperties"), bool):
        del kept["additionalProperties"]
    return kept


def schema_of(settings):
    """Returns the schema of a class of settings."""
    whole = pydantic.TypeAdapter(settings).json_schema(schema_generator=Schemas)
    schema = compact(whole, whole.get("$defs", {}))
    config = getattr(settings, "__pydantic_config__", None) or {}
    if config.get("extra") == "allow":
        return {"type": "object"}
    known = schema.get("properties", {})
    fields = sorted((field for field in dataclasses.fields(settings) if field.init), key=lambda field: field.name)
    return {"type": "object", "properties": {one.name: known.get(one.name) or tried(settings, one) for one in fields}}


def tried(settings, field):
    """Returns the schema of a field with the names of an enumeration, which a function reads. It is found out by trying."""
    is_optional = type(None) in typing.get_args(field.type)
    for kind in typing.get_args(field.type) if is_optional else [field.type]:
        if isinstance(kind, type) and issubclass(kind, enum.Enum) and refuses(settings, field.name, "a word"):
            words = [case for one in kind for case in (one.name, one.name.lower(), one.value)] + [None]
            words = [word for word in words if type(word) in (int, str, type(None))]
            return {"enum": sorted({word for word in words if not refuses(settings, field.name, word)}, key=str)}
    return {}


def refuses(settings, field, value):
    """Returns whether vLLM does not take the value of a field, whatever the other fields are."""
    try:
        pydantic.TypeAdapter(settings).validate_python({field: value})
    except pydantic.ValidationError as error:
        return any(one["loc"][:1] == (field,) for one in error.errors())
    except KeyError:
        # A function looks for the name of an enumeration.
        return True
    except Exception:
        # Code that runs after the fields are checked.
        pass
    return False


def settings_of(function, action):
    """Returns the class whose fields the JSON of a flag has, if it has one: for the others, the field of the flag is named like it."""
    if function.__name__ == "parse_dataclass":
        return function.__defaults__[0]
    named = getattr(vllm.config, "".join(word.capitalize() for word in action.dest.split("_")), None)
    return named if function.__name__ == "loads" and dataclasses.is_dataclass(named) else None


def field_behind(group, name):
    """Returns the type of the field behind a flag, and its schema. The group of the flag is named like a class, which has the field or
    has settings with it."""
    waiting = [getattr(vllm.config, group or "", None)]
    while waiting:
        settings = waiting.pop()
        if not dataclasses.is_dataclass(settings):
            continue
        hints = {field.name: field.type for field in dataclasses.fields(settings)}
        if name in hints:
            return hints[name], schema_of(settings)["properties"].get(name, {})
        waiting.extend(hints.values())
    return None, {}


def without_null(schema):
    """Returns the schema of an optional value that is there."""
    others = [one for one in schema.get("anyOf", []) if one != {"type": "null"}]
    return others[0] if len(others) == 1 else {**schema, "anyOf": others} if others else schema


def inner(function):
    """Returns the function that reads a value, and whether it may be None. vLLM wraps one into another."""
    optional = False
    while function.__name__ in ("_optional_type", "_parse_type"):
        optional = optional or function.__name__ == "_optional_type"
        function = inspect.getclosurevars(function).nonlocals["return_type"]
    return function, optional


def kind(function, hint, settings):
    """Returns what a value is."""
    hints = {hint, typing.get_origin(hint), *typing.get_args(hint)}
    if function.__name__ == "union_dict_and_str":
        # It leaves to the settings what does not look like an object, and most of them take no text.
        return "text" if str in hints else "object"
    is_object = settings or dict in {typing.get_origin(one) or one for one in hints}
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


def choices(action, hint, names):
    """Returns the values that a flag takes, if they are listed."""
    # Names that plug-ins add to are no choices of the parser, but of its help.
    listed = re.match(r"{(.*?)}", str(action.metavar))
    listed = action.metavar if isinstance(action.metavar, list) else listed[1].split(",") if listed else []
    if isinstance(hint, type) and issubclass(hint, enum.IntEnum):
        listed = list(hint)
    return [str(int(one) if isinstance(one, int) else one) for one in action.choices or listed or names]


def flags():
    parser = make_arg_parser(FlexibleArgumentParser())
    groups = {id(action): group.title for group in parser._action_groups for action in group._group_actions}
    # Since 0.33, an action no longer lists the names that the help hides, such as `--no-enable-lora`.
    options = {}
    for option, action in parser._option_string_actions.items():
        options.setdefault(id(action), []).append(option)
    # The parser replaces it before it parses.
    options[id(parser._option_string_actions["--optimization-level"])].append("-O")
    names_of = registered()
    all_flags = {}
    for action in parser._actions:
        written = options.get(id(action), [])
        names = [name for name in written if name.startswith("--")]
        if not names:
            continue
        function, optional = inner(action.type or str)
        hint, schema = field_behind(groups.get(id(action)), action.dest)
        settings = settings_of(function, action)
        schema = schema_of(settings) if settings else without_null(schema)
        type_name = kind(function, hint, settings)
        all_flags[names[0]] = {
            "aliases": [name for name in written if name != names[0]],
            "choices": choices(action, hint, names_of.get(names[0], [])),
            "values": str(1 if action.nargs is None else action.nargs),
            "type": type_name,
            # Of a list, each word is one item.
            "schema": {} if type_name == "text" else schema.get("items", schema),
            "optional": optional,
        }
    return all_flags


def reads(read, name, value):
    """Returns whether vLLM takes a value of a variable."""
    before = os.environ.pop(name, None)
    os.environ[name] = value
    try:
        read()
        return True
    except Exception:
        return False
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def variable(name, read):
    """Returns the schema of a variable. Its function is Python code, so it is found out by trying."""
    listed = inspect.getclosurevars(read).nonlocals.get("choices")
    listed = listed() if callable(listed) else listed
    word, fraction, whole = (reads(read, name, value) for value in ("a word", "1.5", "7"))
    if listed and not whole:
        # Some take several of them.
        several = reads(read, name, ",".join(listed))
        cases = {case for one in listed for case in (one, one.lower(), one.upper()) if reads(read, name, case)}
        return {} if several else {"enum": sorted(cases)}
    if word or not whole:
        return {}
    # JSON has fractions, too.
    return {} if fraction and reads(read, name, "{}") else {"type": "number" if fraction else "integer"}


def judge(given):
    """Returns, for each of these values of fields in the JSON of flags, and of variables, whether vLLM refuses it."""
    parser = make_arg_parser(FlexibleArgumentParser())
    actions = parser._option_string_actions
    for flag, field, value in given["fields"]:
        yield refuses(settings_of(inner(actions[flag].type)[0], actions[flag]), field, value)
    for name, value in given["variables"]:
        yield not reads(envs.environment_variables[name], name, value)


def main():
    if sys.argv[1:] == ["judge"]:
        json.dump(list(judge(json.load(sys.stdin))), sys.stdout)
        return
    connectors = [*KVConnectorFactory._registry, *OffloadingSpecFactory._registry]
    variables = {name: variable(name, read) for name, read in envs.environment_variables.items()}
    json.dump({"connectors": sorted(connectors), "flags": flags(), "variables": variables}, sys.stdout, sort_keys=True)


main()
