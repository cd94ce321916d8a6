//! Parses the data files of the table. They are part of this crate, so an invalid line is a mistake in this build. A test
//! demands that no line is invalid.

use std::{borrow::Cow, collections::HashMap};

use super::{DefaultValue, Field, ListKind, Member, Presence, Shape, Strategy, TypeDef, go};

struct Block {
    name: &'static str,
    atomic: bool,
    built_in: bool,
    lines: Vec<&'static str>,
}

/// Returns the types by name, and what is wrong in the sources. With each source comes whether its types are built in.
pub(super) fn parse(sources: &[(&'static str, bool)]) -> (HashMap<&'static str, TypeDef>, Vec<String>) {
    let mut errors = Vec::new();
    let mut blocks: Vec<Block> = Vec::new();
    for (line, built_in) in
        sources.iter().flat_map(|(text, built_in)| text.lines().map(|line| (line, *built_in)))
    {
        if let Some(head) = line.strip_prefix('@') {
            let (name, atomic) = head.strip_suffix('!').map_or((head, false), |rest| (rest, true));
            blocks.push(Block { name, atomic, built_in, lines: Vec::new() });
        } else if !line.starts_with('#') {
            match blocks.last_mut() {
                Some(block) => block.lines.push(line),
                None => errors.push(format!("{line}: a field before the first type")),
            }
        }
    }
    let mut by_name: HashMap<&str, &Block> = HashMap::new();
    for block in &blocks {
        if by_name.insert(block.name, block).is_some() {
            errors.push(format!("{}: a type that is in the table already", block.name));
        }
    }
    let types = blocks
        .iter()
        .map(|block| {
            let mut def = TypeDef {
                name: block.name,
                atomic: block.atomic,
                built_in: block.built_in,
                fields: Vec::new(),
                members: Vec::new(),
                index: HashMap::new(),
            };
            collect(block, &by_name, false, &mut def, &mut errors);
            for (at, field) in def.fields.iter().enumerate() {
                def.index.entry(field.name).or_insert(at);
            }
            (block.name, def)
        })
        .collect();
    (types, errors)
}

/// Adds the fields of a block, and those of the structs that it embeds.
fn collect(
    block: &Block,
    by_name: &HashMap<&str, &Block>,
    inner: bool,
    def: &mut TypeDef,
    errors: &mut Vec<String>,
) {
    for line in &block.lines {
        let mut wrong = |why: &str| errors.push(format!("{}: {line}: {why}", block.name));
        let mut words = line.split(' ');
        let (Some(name), Some(number), Some(shape)) = (words.next(), words.next(), words.next()) else {
            wrong("name, number and shape are needed");
            continue;
        };
        let Ok(number) = number.parse() else {
            wrong("the second word is not a protobuf number");
            continue;
        };
        if name == "*" {
            if !inner {
                def.members.push(Member::Embedded(number, shape));
            }
            // Go lends the fields of embedded structs to the outer one, at the place of the embedded struct.
            match by_name.get(shape) {
                Some(embedded) => collect(embedded, by_name, true, def, errors),
                None => wrong("the embedded type is not in the table"),
            }
            continue;
        }
        let mut field = new_field(name, number, shape, block.name);
        field.embedded = inner;
        for word in words {
            if !option(&mut field, word) {
                wrong(&format!("{word} is not an option"));
            }
        }
        complete(&mut field);
        if !inner {
            def.members.push(Member::Field(def.fields.len()));
        }
        def.fields.push(field);
    }
}

fn new_field(name: &'static str, number: u32, shape: &'static str, owner: &str) -> Field {
    let (shape, type_name) = match shape.split_once(':') {
        Some((shape, name)) => (shape, Some(go::qualified(name, owner))),
        None => (shape, None),
    };
    Field {
        name,
        go: Cow::Borrowed(""),
        number,
        embedded: false,
        shape: shape_of(shape),
        type_name,
        patch: Strategy::default(),
        presence: Presence::Omitted,
        pointer: false,
        omits_zero: false,
        default: None,
        key_default: None,
    }
}

/// Sets an option. Returns whether the word is one.
fn option(field: &mut Field, word: &'static str) -> bool {
    match word {
        "." => field.presence = Presence::Zero,
        ".n" => field.presence = Presence::Null,
        "*" => field.pointer = true,
        "0" => field.omits_zero = true,
        "-" => field.patch.replace = true,
        "+" => field.patch.retain_keys = true,
        _ => {
            if let Some(name) = word.strip_prefix('>') {
                field.go = Cow::Borrowed(name);
            } else if let Some(rule) = word.strip_prefix(":@") {
                field.default = Some(DefaultValue::Computed(rule));
            } else if let Some(key) = word.trim_start_matches('+').strip_prefix('~') {
                field.patch =
                    Strategy { merge: true, key, retain_keys: word.starts_with('+'), replace: false };
            } else {
                let Some(Ok(value)) = word.get(1..).map(serde_json::from_str) else { return false };
                field.default = Some(match word.as_bytes()[0] {
                    b'=' => DefaultValue::Schema(value),
                    b':' => DefaultValue::Server(value),
                    _ => return false,
                });
            }
        }
    }
    true
}

/// Sets what follows from the options.
fn complete(field: &mut Field) {
    let is_value = field.presence == Presence::Zero || field.omits_zero;
    field.pointer |= matches!(field.shape, Shape::Message { .. }) && !is_value;
    if field.go.is_empty() {
        field.go = match &field.shape {
            // The metadata of an object is an embedded struct with a key of its own.
            Shape::Message { name, .. } if field.name == "metadata" && name.starts_with("meta.v1.") => {
                Cow::Borrowed(name.trim_start_matches("meta.v1."))
            }
            _ => go::name(field.name),
        };
    }
    // A scalar that is always there has a value if it was omitted.
    let zero = matches!(field.shape, Shape::String | Shape::Int32) && field.presence == Presence::Zero;
    field.key_default = match &field.default {
        Some(DefaultValue::Schema(value)) => Some(value.clone()),
        _ => zero.then(|| field.shape.zero()),
    };
}

fn shape_of(text: &'static str) -> Shape {
    if let Some(rest) = text.strip_prefix('[')
        && let Some((keys, element)) = rest.split_once(']')
    {
        let kind = match keys {
            "" => ListKind::Atomic,
            "=" => ListKind::Set,
            _ => ListKind::Map(keys.split(',').collect()),
        };
        return Shape::List { element: Box::new(shape_of(element)), kind };
    }
    if let Some(value) = text.strip_prefix("{}") {
        return Shape::Map { value: Box::new(shape_of(value)), atomic: false };
    }
    if let Some(value) = text.strip_prefix("{!}") {
        return Shape::Map { value: Box::new(shape_of(value)), atomic: true };
    }
    match text {
        "s" => Shape::String,
        "i" => Shape::Int32,
        "l" => Shape::Int64,
        "f" => Shape::Float,
        "b" => Shape::Boolean,
        "y" => Shape::Bytes,
        "q" => Shape::Quantity,
        "t" => Shape::Time,
        "T" => Shape::MicroTime,
        "x" => Shape::IntOrString,
        "u" => Shape::Url,
        "r" => Shape::Raw,
        "j" => Shape::Json,
        "F" => Shape::FieldSet,
        "S" => Shape::Schema,
        _ => {
            let (name, atomic) = text.strip_suffix('!').map_or((text, false), |rest| (rest, true));
            Shape::Message { name, atomic }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_line_of_the_table_is_valid() {
        assert_eq!(parse(&crate::SOURCES).1, Vec::<String>::new());
    }

    #[test]
    fn options_say_what_a_field_is() {
        let (types, errors) = parse(&[(
            "# a comment\n\
             @core.v1.A!\n\
             * 3 core.v1.B\n\
             one 1 s:PullPolicy * =\"x\"\n\
             two 2 {!}q:ResourceList . >Second\n\
             three 0 core.v1.B 0 :{\"four\":1}\n\
             @core.v1.B\n\
             four 1 [four]core.v1.A +~four :@rule",
            true,
        )]);
        assert_eq!(errors, Vec::<String>::new());
        let a = &types["core.v1.A"];
        assert!(a.atomic && a.built_in);
        assert_eq!(a.embedded().collect::<Vec<_>>(), [(3, "core.v1.B")]);
        let names = a.fields.iter().map(|field| (field.name, field.go.as_ref(), field.embedded));
        assert_eq!(
            names.collect::<Vec<_>>(),
            [
                ("four", "Four", true),
                ("one", "One", false),
                ("two", "Second", false),
                ("three", "Three", false)
            ]
        );
        let [one, two, three] = ["one", "two", "three"].map(|name| a.field(name).unwrap());
        assert!(one.pointer && one.default == Some(DefaultValue::Schema(json!("x"))));
        assert!(!two.pointer && two.presence == Presence::Zero);
        assert!(!three.pointer && three.default == Some(DefaultValue::Server(json!({"four": 1}))));
        let four = a.field("four").unwrap();
        assert_eq!(four.default, Some(DefaultValue::Computed("rule")));
        assert_eq!(four.patch, Strategy { merge: true, key: "four", retain_keys: true, replace: false });
    }

    #[test]
    fn invalid_lines_are_named() {
        let (_, errors) =
            parse(&[("x 1 s\n@a.v1.A\ny\ny 1 s ?\nz one s\n* 0 a.v1.B\ny 1 s =x\n@a.v1.A", true)]);
        assert_eq!(
            errors,
            [
                "x 1 s: a field before the first type",
                "a.v1.A: a type that is in the table already",
                "a.v1.A: y: name, number and shape are needed",
                "a.v1.A: y 1 s ?: ? is not an option",
                "a.v1.A: z one s: the second word is not a protobuf number",
                "a.v1.A: * 0 a.v1.B: the embedded type is not in the table",
                "a.v1.A: y 1 s =x: =x is not an option",
            ]
        );
    }
}
