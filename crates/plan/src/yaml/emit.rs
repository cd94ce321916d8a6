//! Lays out values as YAML.

use serde_json::Value;

use super::{
    order::sorted,
    text::{Position, Writer, format_number},
};

/// Which members of a mapping are left out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Omit {
    Nothing,
    /// Null members, in an object.
    Object,
    /// Null and empty members, in metadata.
    Metadata,
}

impl Omit {
    fn omits(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Nothing, _) => false,
            (_, Value::Null) => true,
            (Self::Metadata, Value::Array(items)) => items.is_empty(),
            (Self::Metadata, Value::Object(members)) => members.is_empty(),
            _ => false,
        }
    }

    /// What is left out of a member.
    fn within(self, key: &str) -> Self {
        if self == Self::Object && key == "metadata" { Self::Metadata } else { Self::Nothing }
    }
}

/// What precedes a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// Nothing.
    Document,
    /// The colon of a key.
    Member,
    /// The dash of an item.
    Item,
}

/// Writes a document.
pub(super) fn document(value: &Value, omit: Omit) -> String {
    let mut writer = Writer::default();
    node(&mut writer, value, At::Document, 0, omit);
    writer.out
}

/// Writes a value and ends its line. `indent` is the column of the entry whose value it is.
fn node(writer: &mut Writer, value: &Value, at: At, indent: usize, omit: Omit) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            let indent = if at == At::Item { indent + 2 } else { indent };
            for (index, item) in items.iter().enumerate() {
                begin(writer, index, at, indent);
                writer.text("- ");
                node(writer, item, At::Item, indent, Omit::Nothing);
            }
        }
        Value::Object(members) if members.values().any(|member| !omit.omits(member)) => {
            let indent = if at == At::Document { indent } else { indent + 2 };
            let present = members.iter().filter(|(_, member)| !omit.omits(member));
            let present: Vec<_> = present.map(|(key, member)| (key.as_str(), member)).collect();
            for (index, (key, member)) in sorted(&present).into_iter().enumerate() {
                begin(writer, index, at, indent);
                writer.string(key, indent, Position::Key);
                writer.put(':');
                node(writer, member, At::Member, indent, omit.within(key));
            }
        }
        scalar => {
            if at == At::Member {
                writer.put(' ');
            }
            match scalar {
                Value::Null => writer.text("null"),
                Value::Bool(value) => writer.text(if *value { "true" } else { "false" }),
                Value::Number(number) => writer.text(&format_number(number)),
                Value::String(text) => {
                    let indent = if at == At::Document { 0 } else { indent + 2 };
                    writer.string(text, indent, Position::Value);
                }
                Value::Array(_) => writer.text("[]"),
                Value::Object(_) => writer.text("{}"),
            }
            writer.newline();
        }
    }
}

/// Begins the line of an entry. The first entry stands behind the dash of its item, or below the key.
fn begin(writer: &mut Writer, index: usize, at: At, indent: usize) {
    if index > 0 {
        writer.spaces(indent);
    } else if at == At::Member {
        writer.break_to(indent);
    }
}
