//! Parses the data files of the table. They are part of this crate, so an invalid line is a mistake in this build. The tests
//! parse all lines.

use std::collections::HashMap;

use super::{Field, ListKind, Presence, Shape, Strategy, TypeDef};

struct Block {
    name: &'static str,
    atomic: bool,
    open: bool,
    lines: Vec<&'static str>,
}

pub(super) fn parse(sources: &[&'static str]) -> HashMap<&'static str, TypeDef> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in sources.iter().flat_map(|source| source.lines()) {
        if let Some(head) = line.strip_prefix('@') {
            let (head, open) = head.strip_suffix(" ?").map_or((head, false), |rest| (rest, true));
            let (name, atomic) = head.strip_suffix('!').map_or((head, false), |rest| (rest, true));
            blocks.push(Block { name, atomic, open, lines: Vec::new() });
        } else if !line.starts_with('#')
            && let Some(block) = blocks.last_mut()
        {
            block.lines.push(line);
        }
    }
    let by_name: HashMap<&str, usize> =
        blocks.iter().enumerate().map(|(at, block)| (block.name, at)).collect();
    blocks
        .iter()
        .map(|block| {
            let mut fields = Vec::new();
            let mut embedded = Vec::new();
            collect(block, &blocks, &by_name, false, &mut fields, &mut embedded);
            let mut index = HashMap::with_capacity(fields.len());
            for (at, field) in fields.iter().enumerate() {
                index.entry(field.name).or_insert(at);
            }
            let def =
                TypeDef { name: block.name, atomic: block.atomic, open: block.open, fields, embedded, index };
            (block.name, def)
        })
        .collect()
}

fn collect(
    block: &Block,
    blocks: &[Block],
    by_name: &HashMap<&str, usize>,
    inner: bool,
    fields: &mut Vec<Field>,
    embedded: &mut Vec<(u32, &'static str)>,
) {
    for line in &block.lines {
        let mut words = line.split(' ');
        let (Some(name), Some(number), Some(shape)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let number = number.parse().unwrap_or(0);
        if name == "*" {
            if !inner {
                embedded.push((number, shape));
            }
            if let Some(&at) = by_name.get(shape) {
                collect(&blocks[at], blocks, by_name, true, fields, embedded);
            }
            continue;
        }
        let mut field = Field {
            name,
            number,
            embedded: inner,
            shape: shape_of(shape),
            patch: Strategy::default(),
            presence: Presence::Omitted,
            optional: false,
            default: None,
        };
        for option in words {
            match option {
                "." => field.presence = Presence::Zero,
                ".n" => field.presence = Presence::Null,
                "*" => field.optional = true,
                "-" => field.patch.replace = true,
                _ if option.starts_with('=') => field.default = serde_json::from_str(&option[1..]).ok(),
                _ => {
                    let rest = option.strip_prefix('+');
                    field.patch.retain_keys = rest.is_some();
                    if let Some(key) = rest.unwrap_or(option).strip_prefix('~') {
                        field.patch.merge = true;
                        field.patch.key = key;
                    }
                }
            }
        }
        fields.push(field);
    }
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
        "i" => Shape::Integer,
        "f" => Shape::Float,
        "b" => Shape::Boolean,
        "y" => Shape::Bytes,
        "q" => Shape::Quantity,
        "t" => Shape::Time,
        "T" => Shape::MicroTime,
        "x" => Shape::IntOrString,
        "r" => Shape::Raw,
        "j" => Shape::Json,
        "F" => Shape::FieldSet,
        _ => {
            let (name, atomic) = text.strip_suffix('!').map_or((text, false), |rest| (rest, true));
            Shape::Message { name, atomic }
        }
    }
}
