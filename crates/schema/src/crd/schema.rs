//! Validates the schemas of definitions: they must be structural and consistent.

use std::{fmt::Write, sync::Arc};

use serde_json::{Map, Value};

use super::super::{
    StructuralSchema,
    cel::Program,
    cel::types,
    default, lists, patterns, prune,
    structural::{Additional, Node},
    validate,
};
use crate::Cause;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Appends the errors of the `openAPIV3Schema` at `path`.
pub(super) fn check(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut walk = Walk { causes, costs: types::Costs::default() };
    let compiled = StructuralSchema::of(schema, false);
    walk.node(schema, compiled.root(), &mut path.to_owned(), Position::Root, 1);
    if let Some(detail) = walk.costs.total() {
        walk.causes.push(Cause::forbidden(path, detail));
    }
}

/// The position of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Root,
    /// The value of a property or of additional properties.
    Field,
    Item,
    /// Below `allOf`, `anyOf`, `oneOf` or `not`.
    Junctor,
}

struct Walk<'a> {
    causes: &'a mut Vec<Cause>,
    costs: types::Costs,
}

// === impl Walk ===

impl Walk<'_> {
    /// Checks a node that may occur `times` times in one object.
    fn node(&mut self, schema: &Value, node: &Node, path: &mut String, place: Position, times: u64) {
        let Some(map) = schema.as_object() else { return };
        self.typed(map, path, place);
        if place != Position::Junctor {
            self.extensions(map, path, place);
            self.default(schema, node, map, path);
            self.rules(node, map, path, times);
        }
        self.pattern(map, path);
        if map.contains_key("$ref") {
            self.causes.push(Cause::forbidden(format!("{path}.$ref"), "$ref is not supported"));
        }
        if map.get("uniqueItems") == Some(&Value::Bool(true)) {
            self.causes.push(Cause::forbidden(
                format!("{path}.uniqueItems"),
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ));
        }
        self.children(map, node, path, place, times);
    }

    fn typed(&mut self, map: &Map<String, Value>, path: &str, place: Position) {
        let kind = map.get("type").and_then(Value::as_str).unwrap_or_default();
        let flag = |name: &str| map.get(name) == Some(&Value::Bool(true));
        let free = flag("x-kubernetes-int-or-string") || flag("x-kubernetes-preserve-unknown-fields");
        let field = || format!("{path}.type");
        if place == Position::Junctor {
            if !kind.is_empty() {
                self.causes.push(Cause::forbidden(field(), "must be empty to be structural"));
            }
            return;
        }
        if kind.is_empty() {
            match place {
                Position::Root => self.causes.push(Cause::required(field(), "must not be empty at the root")),
                Position::Item if !free => {
                    self.causes.push(Cause::required(field(), "must not be empty for specified array items"));
                }
                Position::Field if !free => {
                    self.causes
                        .push(Cause::required(field(), "must not be empty for specified object fields"));
                }
                _ => {}
            }
        } else if !TYPES.contains(&kind) {
            self.causes.push(Cause::unsupported(field(), &Value::from(kind), &TYPES));
        } else if place == Position::Root && kind != "object" {
            self.causes.push(Cause::invalid(field(), &Value::from(kind), "must be object at the root"));
        }
        if kind == "array" && !map.contains_key("items") {
            self.causes.push(Cause::required(format!("{path}.items"), "must be specified"));
        }
        if let (Some(additional), Some(_)) = (map.get("additionalProperties"), map.get("properties"))
            && *additional != Value::Bool(false)
        {
            let detail = "additionalProperties and properties are mutual exclusive";
            self.causes.push(Cause::forbidden(format!("{path}.additionalProperties"), detail));
        }
        if place == Position::Root
            && map.get("additionalProperties").is_some_and(|a| *a != Value::Bool(false))
        {
            let detail = "must not be used at the root";
            self.causes.push(Cause::forbidden(format!("{path}.additionalProperties"), detail));
        }
        if place == Position::Root
            && let Some(metadata) = map.get("properties").and_then(|p| p.get("metadata"))
            && !only_names(metadata)
        {
            self.causes.push(Cause::forbidden(
                format!("{path}.properties[metadata]"),
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            ));
        }
    }

    fn extensions(&mut self, map: &Map<String, Value>, path: &str, place: Position) {
        if let Some(value @ Value::Bool(false)) = map.get("x-kubernetes-preserve-unknown-fields") {
            let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
            self.causes.push(Cause::invalid(field, value, "must be true or undefined"));
        }
        let kind = map.get("type").and_then(Value::as_str).unwrap_or_default();
        let flag = |name: &str| map.get(name) == Some(&Value::Bool(true));
        if flag("x-kubernetes-embedded-resource") {
            if place == Position::Root {
                let field = format!("{path}.x-kubernetes-embedded-resource");
                self.causes.push(Cause::forbidden(field, "must be false at the root"));
            }
            if kind != "object" {
                let field = format!("{path}.type");
                self.causes.push(Cause::invalid(
                    field,
                    &Value::from(kind),
                    "must be object if x-kubernetes-embedded-resource is true",
                ));
            }
            if !map.contains_key("properties") && !flag("x-kubernetes-preserve-unknown-fields") {
                self.causes.push(Cause::required(
                    format!("{path}.properties"),
                    "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
                ));
            }
        }
        if flag("x-kubernetes-int-or-string") && !kind.is_empty() {
            let field = format!("{path}.type");
            self.causes.push(Cause::invalid(
                field,
                &Value::from(kind),
                "must be empty if x-kubernetes-int-or-string is true",
            ));
        }
        self.list(map, path);
        if let Some(value) = map.get("x-kubernetes-map-type")
            && *value != "atomic"
            && *value != "granular"
        {
            let field = format!("{path}.x-kubernetes-map-type");
            self.causes.push(Cause::unsupported(field, value, &["atomic", "granular"]));
        }
    }

    fn list(&mut self, map: &Map<String, Value>, path: &str) {
        let Some(value) = map.get("x-kubernetes-list-type") else { return };
        let field = format!("{path}.x-kubernetes-list-type");
        if map.get("type").is_none_or(|kind| kind != "array") {
            let kind = map.get("type").cloned().unwrap_or_else(|| "".into());
            self.causes.push(Cause::invalid(
                format!("{path}.type"),
                &kind,
                "must be array if x-kubernetes-list-type is specified",
            ));
        }
        if !["atomic", "set", "map"].iter().any(|known| value == known) {
            self.causes.push(Cause::unsupported(field, value, &["atomic", "map", "set"]));
            return;
        }
        let keys: Vec<&str> = map
            .get("x-kubernetes-list-map-keys")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let keys_field = format!("{path}.x-kubernetes-list-map-keys");
        if value != "map" {
            if !keys.is_empty() {
                let detail = "must be empty if x-kubernetes-list-type is not map";
                self.causes.push(Cause::forbidden(keys_field, detail));
            }
            return;
        }
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            self.causes.push(Cause::required(keys_field, detail));
            return;
        }
        let Some(items) = map.get("items").filter(|items| items.is_object()) else { return };
        for (index, key) in keys.iter().enumerate() {
            let Some(property) = items["properties"].get(key) else {
                let detail = "entries must all be names of item properties";
                self.causes.push(Cause::invalid(
                    format!("{keys_field}[{index}]"),
                    &Value::from(*key),
                    detail,
                ));
                continue;
            };
            let required =
                items["required"].as_array().is_some_and(|required| required.iter().any(|name| name == key));
            if !required && property.get("default").is_none() {
                self.causes.push(Cause::required(
                    format!("{path}.items.properties[{key}].default"),
                    "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
                ));
            }
        }
    }

    fn default(&mut self, schema: &Value, node: &Node, map: &Map<String, Value>, path: &str) {
        let Some(value) = map.get("default") else { return };
        let field = format!("{path}.default");
        let mut pruned = value.clone();
        default::default(&mut pruned, node);
        // The default is wrapped in an object: at the root of a resource, pruning would keep apiVersion, kind and metadata.
        if !node.embedded
            && (pruned.is_object() || pruned.is_array())
            && !prune::prune(&mut serde_json::json!({ "value": pruned }), &wrapped(schema)).is_empty()
        {
            self.causes.push(Cause::invalid(&field, value, "must not have unknown fields"));
            return;
        }
        let mut found = validate::check(value, None, node, "");
        lists::check(value, node, "", &mut found);
        for mut cause in found {
            cause.field = match cause.field.as_str() {
                "" | "<nil>" => field.clone(),
                below if below.starts_with('[') => format!("{field}{below}"),
                below => format!("{field}.{below}"),
            };
            self.causes.push(cause);
        }
    }

    fn pattern(&mut self, map: &Map<String, Value>, path: &str) {
        let Some(value) = map.get("pattern").filter(|p| p.is_string()) else { return };
        let pattern = value.as_str().unwrap_or_default();
        if let Err(error) = patterns::compile(pattern) {
            let why = regex_error(pattern, &error);
            self.causes.push(Cause::invalid(
                format!("{path}.pattern"),
                value,
                format!("must be a valid regular expression, but isn't: {why}"),
            ));
        }
    }

    fn rules(&mut self, node: &Node, map: &Map<String, Value>, path: &str, times: u64) {
        let Some(rules) = map.get("x-kubernetes-validations").and_then(Value::as_array) else { return };
        for (index, (rule, compiled)) in rules.iter().zip(node.rules.iter()).enumerate() {
            let at = format!("{path}.x-kubernetes-validations[{index}]");
            let source = rule["rule"].as_str().unwrap_or_default();
            if source.trim().is_empty() {
                self.causes.push(Cause::required(format!("{at}.rule"), "rule is not specified"));
                continue;
            }
            let program = match compiled
                .program()
                .map_err(str::to_owned)
                .and_then(|program| types::check(program, source, node).map(|()| program))
            {
                Ok(program) => program,
                Err(why) => {
                    let detail = format!("compilation failed: {why}");
                    self.causes.push(Cause::invalid_as(format!("{at}.rule"), shown(rule), detail));
                    continue;
                }
            };
            if types::is_no_condition(program, node) {
                let detail = "cel expression must evaluate to a bool";
                self.causes.push(Cause::invalid_as(format!("{at}.rule"), shown(rule), detail));
                continue;
            }
            for detail in self.costs.add(program, node, times) {
                self.causes.push(Cause::forbidden(format!("{at}.rule"), detail));
            }
            if let Some(message) = rule["messageExpression"].as_str().filter(|m| !m.trim().is_empty())
                && let Err(why) =
                    Program::compile(message).and_then(|program| types::check(&program, message, node))
            {
                let detail = format!("messageExpression compilation failed: {why}");
                self.causes.push(Cause::invalid_as(format!("{at}.messageExpression"), shown(rule), detail));
            }
        }
    }

    /// Checks a schema at `segment` below `path`.
    fn below(
        &mut self,
        schema: &Value,
        node: &Node,
        path: &mut String,
        segment: std::fmt::Arguments<'_>,
        (place, times): (Position, u64),
    ) {
        let length = path.len();
        // writing to a string cannot fail
        let _ = path.write_fmt(segment);
        self.node(schema, node, path, place, times);
        path.truncate(length);
    }

    fn children(
        &mut self,
        map: &Map<String, Value>,
        node: &Node,
        path: &mut String,
        place: Position,
        times: u64,
    ) {
        let inner = if place == Position::Junctor { Position::Junctor } else { Position::Field };
        for (name, schema) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if let Some(child) = node.properties.get(name.as_str()) {
                self.below(schema, child, path, format_args!(".properties[{name}]"), (inner, times));
            }
        }
        let bound = |key: &str, child: &Node| {
            map.get(key).and_then(Value::as_u64).unwrap_or_else(|| types::most_items(child))
        };
        if let (Some(schema), Additional::Schema(child)) = (map.get("additionalProperties"), &node.additional)
        {
            let times = times.saturating_mul(bound("maxProperties", child));
            self.below(schema, child, path, format_args!(".additionalProperties"), (inner, times));
        }
        if let (Some(schema), Some(child)) = (map.get("items"), &node.items) {
            let inner = if place == Position::Junctor { Position::Junctor } else { Position::Item };
            let times = times.saturating_mul(bound("maxItems", child));
            self.below(schema, child, path, format_args!(".items"), (inner, times));
        }
        let Some(logic) = &node.logic else { return };
        let int_or_string = node.int_or_string;
        for (key, branches) in [("allOf", &logic.all_of), ("anyOf", &logic.any_of), ("oneOf", &logic.one_of)]
        {
            // Only the `oneOf` of an int-or-string may declare types.
            if int_or_string && key != "oneOf" {
                continue;
            }
            let schemas = map.get(key).and_then(Value::as_array).into_iter().flatten();
            for (index, (schema, child)) in schemas.zip(branches).enumerate() {
                self.below(schema, child, path, format_args!(".{key}[{index}]"), (Position::Junctor, times));
            }
        }
        if let (Some(schema), Some(child)) = (map.get("not"), &logic.not) {
            self.below(schema, child, path, format_args!(".not"), (Position::Junctor, times));
        }
    }
}

fn wrapped(schema: &Value) -> Arc<Node> {
    Node::compile(&serde_json::json!({"type": "object", "properties": {"value": schema}}).to_string())
}

/// Whether a schema of `metadata` restricts only names.
fn only_names(metadata: &Value) -> bool {
    metadata.as_object().is_some_and(|map| {
        map.iter().all(|(key, value)| match key.as_str() {
            "type" | "description" => true,
            "properties" => value
                .as_object()
                .is_some_and(|p| p.keys().all(|name| name == "name" || name == "generateName")),
            _ => false,
        })
    })
}

/// A rule in the reference's internal form.
fn shown(rule: &Value) -> String {
    let text = |key: &str| {
        Value::from(rule[key].as_str().unwrap_or_default())
            .to_string()
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026")
    };
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        rule["reason"],
        text("fieldPath"),
        rule["optionalOldSelf"],
    )
}

/// Go's messages for the most common mistakes in regular expressions.
fn regex_error(pattern: &str, error: &regex::Error) -> String {
    let text = error.to_string();
    let (what, part) = if text.contains("unclosed character class") {
        ("missing closing ]", pattern.rfind('[').map_or(pattern, |at| &pattern[at..]))
    } else if text.contains("unclosed group") {
        ("missing closing )", pattern)
    } else if text.contains("unopened group") {
        ("unexpected )", pattern)
    } else if text.contains("repetition operator missing expression") {
        ("missing argument to repetition operator", &pattern[..1])
    } else if text.contains("look-around") {
        ("invalid or unsupported Perl syntax", pattern.find("(?").map_or(pattern, |at| &pattern[at..at + 3]))
    } else {
        let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        return format!("error parsing regexp: {last}: `{pattern}`");
    };
    format!("error parsing regexp: {what}: `{part}`")
}
