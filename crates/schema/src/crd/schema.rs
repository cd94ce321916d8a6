//! Validates the schemas of definitions: they must be structural and consistent.

use longboat_types::quote::escape_html;
use serde_json::Value;

use super::super::{
    StructuralSchema,
    cel::Program,
    cel::types,
    default, lists, patterns, prune,
    structural::{Additional, Node},
    validate,
};
use crate::Field;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Reports the errors of an `openAPIV3Schema`.
pub(super) fn check(schema: &Field<'_>) {
    let mut costs = types::Costs::default();
    let compiled = StructuralSchema::of(schema, false);
    check_node(schema, compiled.root(), Position::Root, 1, &mut costs);
    if let Some(detail) = costs.total() {
        schema.forbidden(detail);
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

/// Whether a switch of a schema is on.
fn flag(schema: &Value, name: &str) -> bool {
    schema[name] == true
}

/// Checks a node that may occur `times` times in one object.
fn check_node(schema: &Field<'_>, node: &Node, place: Position, times: u64, costs: &mut types::Costs) {
    if !schema.is_object() {
        return;
    }
    typed(schema, place);
    if place != Position::Junctor {
        extensions(schema, place);
        check_default(schema, node);
        rules(schema, node, times, costs);
    }
    pattern(&schema.at("pattern"));
    if schema.get("$ref").is_some() {
        schema.at("$ref").forbidden("$ref is not supported");
    }
    if flag(schema, "uniqueItems") {
        schema
            .at("uniqueItems")
            .forbidden("uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
    }
    children(schema, node, place, times, costs);
}

fn typed(schema: &Field<'_>, place: Position) {
    let kind = schema.at("type");
    let name = kind.as_text();
    let free =
        flag(schema, "x-kubernetes-int-or-string") || flag(schema, "x-kubernetes-preserve-unknown-fields");
    match place {
        Position::Junctor => {
            if !name.is_empty() {
                kind.forbidden("must be empty to be structural");
            }
            return;
        }
        Position::Root if name.is_empty() => kind.required("must not be empty at the root"),
        Position::Item if name.is_empty() && !free => {
            kind.required("must not be empty for specified array items");
        }
        Position::Field if name.is_empty() && !free => {
            kind.required("must not be empty for specified object fields");
        }
        _ if name.is_empty() => {}
        _ if !TYPES.contains(&name) => kind.unsupported(&TYPES),
        Position::Root if name != "object" => kind.invalid("must be object at the root"),
        _ => {}
    }
    if name == "array" && schema.get("items").is_none() {
        schema.at("items").required("must be specified");
    }
    let additional = schema.at("additionalProperties");
    let adds = schema.get("additionalProperties").is_some_and(|additional| *additional != false);
    if adds && schema.get("properties").is_some() {
        additional.forbidden("additionalProperties and properties are mutual exclusive");
    }
    if place != Position::Root {
        return;
    }
    if adds {
        additional.forbidden("must not be used at the root");
    }
    if schema["properties"].get("metadata").is_some_and(|metadata| !only_names(metadata)) {
        schema.clone().named(format!("{}.properties[metadata]", schema.path)).forbidden(
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        );
    }
}

fn extensions(schema: &Field<'_>, place: Position) {
    let (kind, preserve) = (schema.text_at("type"), schema.at("x-kubernetes-preserve-unknown-fields"));
    if *preserve == false {
        preserve.invalid("must be true or undefined");
    }
    if flag(schema, "x-kubernetes-embedded-resource") {
        if place == Position::Root {
            schema.at("x-kubernetes-embedded-resource").forbidden("must be false at the root");
        }
        if kind.as_text() != "object" {
            kind.invalid("must be object if x-kubernetes-embedded-resource is true");
        }
        if schema.get("properties").is_none() && *preserve != true {
            schema.at("properties").required(
                "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
            );
        }
    }
    if flag(schema, "x-kubernetes-int-or-string") && !kind.as_text().is_empty() {
        kind.invalid("must be empty if x-kubernetes-int-or-string is true");
    }
    list(schema);
    let map_type = schema.at("x-kubernetes-map-type");
    if schema.get("x-kubernetes-map-type").is_some() && !matches!(map_type.as_text(), "atomic" | "granular") {
        map_type.unsupported(&["atomic", "granular"]);
    }
}

fn list(schema: &Field<'_>) {
    let list_type = schema.at("x-kubernetes-list-type");
    if schema.get("x-kubernetes-list-type").is_none() {
        return;
    }
    if schema["type"] != "array" {
        let kind = schema.get("type").cloned().unwrap_or_else(|| "".into());
        schema.at("type").with(&kind).invalid("must be array if x-kubernetes-list-type is specified");
    }
    if !matches!(list_type.as_text(), "atomic" | "set" | "map") {
        list_type.unsupported(&["atomic", "map", "set"]);
        return;
    }
    let field = schema.at("x-kubernetes-list-map-keys");
    let keys: Vec<&str> =
        schema.list("x-kubernetes-list-map-keys").iter().filter_map(Value::as_str).collect();
    if list_type.as_text() != "map" {
        if !keys.is_empty() {
            field.forbidden("must be empty if x-kubernetes-list-type is not map");
        }
        return;
    }
    if keys.is_empty() {
        field.required("must not be empty if x-kubernetes-list-type is map");
        return;
    }
    let items = schema.at("items");
    if !items.is_object() {
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        let Some(property) = items["properties"].get(key) else {
            let (shown, path) = (Value::from(*key), format!("{}[{index}]", field.path));
            field.with(&shown).named(path).invalid("entries must all be names of item properties");
            continue;
        };
        let required = items.list("required").iter().any(|name| name == key);
        if !required && property.get("default").is_none() {
            items.clone().named(format!("{}.properties[{key}].default", items.path)).required(
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            );
        }
    }
}

fn check_default(schema: &Field<'_>, node: &Node) {
    let Some(value) = schema.get("default") else { return };
    let field = schema.at("default");
    let mut pruned = value.clone();
    default::default(&mut pruned, node);
    if !node.embedded && !prune::prune_field(&mut pruned, node).is_empty() {
        field.invalid("must not have unknown fields");
        return;
    }
    let mut found = validate::check(value, None, node);
    lists::check(value, node, &mut found);
    for cause in &mut found {
        cause.field = match cause.field.as_str() {
            "" | "<nil>" => field.path.clone(),
            below if below.starts_with('[') => format!("{}{below}", field.path),
            below => format!("{}.{below}", field.path),
        };
    }
    field.causes().extend(found);
}

fn pattern(pattern: &Field<'_>) {
    if let Some(Err(error)) = pattern.as_str().map(patterns::compile) {
        let why = regex_error(pattern.as_text(), &error);
        pattern.invalid(format!("must be a valid regular expression, but isn't: {why}"));
    }
}

fn rules(schema: &Field<'_>, node: &Node, times: u64, costs: &mut types::Costs) {
    for (rule, compiled) in schema.items("x-kubernetes-validations").zip(node.rules.iter()) {
        let field = rule.at("rule");
        let source = field.as_text();
        if source.trim().is_empty() {
            field.required("rule is not specified");
            continue;
        }
        let program = match compiled
            .program()
            .map_err(str::to_owned)
            .and_then(|program| types::check(program, source, node).map(|()| program))
        {
            Ok(program) => program,
            Err(why) => {
                field.invalid_as(shown(&rule), format!("compilation failed: {why}"));
                continue;
            }
        };
        if types::is_no_condition(program, node) {
            field.invalid_as(shown(&rule), "cel expression must evaluate to a bool");
            continue;
        }
        costs.add(program, node, times).iter().for_each(|detail| field.forbidden(detail));
        let message = rule.at("messageExpression");
        let source = message.as_text();
        if !source.trim().is_empty()
            && let Err(why) =
                Program::compile(source).and_then(|program| types::check(&program, source, node))
        {
            message.invalid_as(shown(&rule), format!("messageExpression compilation failed: {why}"));
        }
    }
}

fn children(schema: &Field<'_>, node: &Node, place: Position, times: u64, costs: &mut types::Costs) {
    let below = |position| if place == Position::Junctor { Position::Junctor } else { position };
    for (name, property) in schema.entries("properties") {
        if let Some(child) = node.properties.get(name) {
            check_node(&property, child, below(Position::Field), times, costs);
        }
    }
    let most = |key: &str, child: &Node| {
        times.saturating_mul(schema[key].as_u64().unwrap_or_else(|| types::most_items(child)))
    };
    if let Additional::Schema(child) = &node.additional {
        let (schema, times) = (schema.at("additionalProperties"), most("maxProperties", child));
        check_node(&schema, child, below(Position::Field), times, costs);
    }
    if let Some(child) = &node.items {
        check_node(&schema.at("items"), child, below(Position::Item), most("maxItems", child), costs);
    }
    let Some(logic) = &node.logic else { return };
    for (key, branches) in [("allOf", &logic.all_of), ("anyOf", &logic.any_of), ("oneOf", &logic.one_of)] {
        // Only the `oneOf` of an int-or-string may declare types.
        if node.int_or_string && key != "oneOf" {
            continue;
        }
        for (branch, child) in schema.items(key).zip(branches) {
            check_node(&branch, child, Position::Junctor, times, costs);
        }
    }
    if let Some(child) = &logic.not {
        check_node(&schema.at("not"), child, Position::Junctor, times, costs);
    }
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
    let text = |key: &str| escape_html(&Value::from(rule[key].as_str().unwrap_or_default()).to_string());
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
        let operator = pattern.split(['(', '|']).find(|part| part.starts_with(['*', '+', '?', '{']));
        ("missing argument to repetition operator", operator.map_or(pattern, |part| &part[..1]))
    } else if text.contains("look-around") {
        let look_around = ["(?=", "(?!", "(?<"].into_iter().find(|start| pattern.contains(start));
        ("invalid or unsupported Perl syntax", look_around.unwrap_or(pattern))
    } else {
        let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        return format!("error parsing regexp: {last}: `{pattern}`");
    };
    format!("error parsing regexp: {what}: `{part}`")
}
