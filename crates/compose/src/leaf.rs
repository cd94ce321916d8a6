//! Templates in single strings.
//!
//! The reference runs one template over the JSON text of the whole object. If every string that contains an action is a
//! complete template on its own, running it on that string's JSON text gives the same result, and strings without actions
//! stay as they are. [`crate::render`] handles everything else (blocks that span fields, definitions, templates in keys), and
//! every error.

use longboat_template::{Limits, Template, reflect::Value as Data};
use serde_json::Value;

use crate::{codec, functions::FUNCTIONS};

/// The start of a template action.
pub(crate) const ACTION: &str = "{{";

/// Whether a text contains a template action. Most texts have no brace at all, and a single byte is found much faster.
pub(crate) fn is_template(text: &str) -> bool {
    text.as_bytes().contains(&b'{') && text.contains(ACTION)
}

/// Prefixes of the names of fields that only the complete service has, and of methods that read them. Templates that use such
/// a name are rendered with the whole document. A getter is named for its field.
const RARE: [&str; 10] = [
    "IsUsing",
    "SelfLink",
    "Status",
    "ManagedFields",
    "OwnerReferences",
    "Finalizers",
    "Generat",
    "ResourceVersion",
    "Deletion",
    "CreationTimestamp",
];

/// Parses the template in a string. Returns `None` if the template is not complete on its own.
pub(crate) fn parse(text: &str) -> Option<Template> {
    let mut source = String::with_capacity(text.len() + text.len() / 8);
    codec::escape(&mut source, text);
    Template::parse(TEMPLATE_NAME, &source, FUNCTIONS)
        .ok()
        .filter(|t| {
            let is_rare = |name: &str| {
                let field = name.strip_prefix("Get").unwrap_or(name);
                RARE.iter().any(|rare| field.starts_with(rare))
            };
            t.is_self_contained() && !t.mentions(is_rare)
        })?
        .filtered(unescape)
}

/// The name of every template, which is part of its errors.
pub(crate) const TEMPLATE_NAME: &str = "config";

/// Renders a string's template. Returns `None` if it fails, or if a value is not the content of a JSON string.
pub(crate) fn render(template: &Template, data: &Data<'_>) -> Option<String> {
    template.execute(data, Limits::default()).ok()
}

/// Decodes the content of a JSON string.
fn unescape(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let first = bytes.iter().position(|b| matches!(b, b'\\' | b'"' | 0..=0x1f));
    let Some(mut at) = first else { return Some(text.to_owned()) };
    let mut out = String::with_capacity(text.len());
    let mut start = 0;
    loop {
        if bytes[at] != b'\\' {
            return None;
        }
        out.push_str(&text[start..at]);
        let (c, width) = match bytes.get(at + 1)? {
            b'n' => ('\n', 2),
            b'"' => ('"', 2),
            b'\\' => ('\\', 2),
            b't' => ('\t', 2),
            b'r' => ('\r', 2),
            b'/' => ('/', 2),
            b'b' => ('\x08', 2),
            b'f' => ('\x0c', 2),
            b'u' => {
                let digits = text.get(at + 2..at + 6)?;
                // The JSON parser handles surrogates.
                (char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, 6)
            }
            _ => return None,
        };
        out.push(c);
        start = at + width;
        match bytes[start..].iter().position(|b| matches!(b, b'\\' | b'"' | 0..=0x1f)) {
            Some(offset) => at = start + offset,
            None => break,
        }
    }
    out.push_str(&text[start..]);
    Some(out)
}

/// Calls `visit` with every string that contains an action.
pub(crate) fn for_each_template<'a>(json: &'a Value, visit: &mut impl FnMut(&'a str)) {
    match json {
        Value::String(text) if is_template(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| for_each_template(item, visit)),
        Value::Object(map) => map.values().for_each(|item| for_each_template(item, visit)),
        _ => {}
    }
}

/// Whether a key contains an action.
pub(crate) fn has_templated_key(json: &Value) -> bool {
    match json {
        Value::Array(items) => items.iter().any(has_templated_key),
        Value::Object(map) => map.iter().any(|(key, item)| key.contains(ACTION) || has_templated_key(item)),
        _ => false,
    }
}
