//! Go's JSON encoder for a tree: keys in declaration order, HTML characters escaped.

use std::fmt::Write as _;

use longboat_template::reflect::{Struct, Ty};
use serde_json::{Map, Value};

/// Writes `json` as Go encodes a value of type `ty`. Keys that the type does not have are left out.
pub(crate) fn encode(out: &mut String, ty: Ty, json: &Value) {
    match (ty, json) {
        (Ty::Ptr(inner), _) => encode(out, *inner, json),
        (_, Value::Null) => out.push_str("null"),
        (_, Value::Bool(b)) => out.push_str(if *b { "true" } else { "false" }),
        (_, Value::Number(n)) => {
            // Writing to a String cannot fail.
            let _ = write!(out, "{n}");
        }
        (_, Value::String(s)) => string(out, s),
        (_, Value::Array(items)) => {
            let inner = if let Ty::Slice(_, inner) = ty { *inner } else { Ty::Any };
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                encode(out, inner, item);
            }
            out.push(']');
        }
        (Ty::Struct(s), Value::Object(map)) => {
            out.push('{');
            let mut first = true;
            fields(out, s, map, &mut first);
            out.push('}');
        }
        (_, Value::Object(map)) => {
            let inner = if let Ty::Map(_, inner) = ty { *inner } else { Ty::Any };
            out.push('{');
            for (i, (key, item)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                string(out, key);
                out.push(':');
                encode(out, inner, item);
            }
            out.push('}');
        }
    }
}

fn fields(out: &mut String, s: &'static Struct, map: &Map<String, Value>, first: &mut bool) {
    for field in s.fields() {
        if field.json.is_empty() {
            if let Ty::Struct(inner) = field.ty {
                fields(out, inner, map, first);
            }
            continue;
        }
        if let Some(value) = map.get(field.json) {
            if !std::mem::take(first) {
                out.push(',');
            }
            string(out, field.json);
            out.push(':');
            encode(out, field.ty, value);
        }
    }
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    escape(out, text);
    out.push('"');
}

/// Writes the content of a Go JSON string, without the quotes.
pub(crate) fn escape(out: &mut String, text: &str) {
    let mut start = 0;
    for (i, c) in text.char_indices() {
        let short = match c {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\x08' => "\\b",
            '\x0c' => "\\f",
            '<' => "\\u003c",
            '>' => "\\u003e",
            '&' => "\\u0026",
            '\u{2028}' => "\\u2028",
            '\u{2029}' => "\\u2029",
            c if (c as u32) < 0x20 => "",
            _ => continue,
        };
        out.push_str(&text[start..i]);
        if short.is_empty() {
            let _ = write!(out, "\\u{:04x}", c as u32);
        } else {
            out.push_str(short);
        }
        start = i + c.len_utf8();
    }
    out.push_str(&text[start..]);
}
