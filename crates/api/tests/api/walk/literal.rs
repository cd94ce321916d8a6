//! Parses Python literals, which the walks contain for everything that is not plain text.

use serde_json::{Map, Number, Value};

/// Parses one literal at the start of `text`. Returns it with the rest of the text.
pub(super) fn read(text: &str) -> (Value, &str) {
    let text = text.trim_start();
    match text.chars().next() {
        Some(quote @ ('\'' | '"')) => string(&text[1..], quote),
        Some('[') => {
            let mut list = Vec::new();
            let mut rest = text[1..].trim_start();
            while !rest.starts_with(']') {
                let (item, after) = read(rest);
                list.push(item);
                rest = after.trim_start().trim_start_matches(',').trim_start();
            }
            (Value::Array(list), &rest[1..])
        }
        Some('{') => {
            let mut object = Map::new();
            let mut rest = text[1..].trim_start();
            while !rest.starts_with('}') {
                let (key, after) = read(rest);
                let (value, after) = read(after.trim_start().strip_prefix(':').unwrap());
                object.insert(key.as_str().unwrap().to_owned(), value);
                rest = after.trim_start().trim_start_matches(',').trim_start();
            }
            (Value::Object(object), &rest[1..])
        }
        _ => word(text),
    }
}

fn string(text: &str, quote: char) -> (Value, &str) {
    let mut out = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next().unwrap() {
            (_, '\\') => match chars.next().unwrap().1 {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                escaped => out.push(escaped),
            },
            (at, c) if c == quote => return (Value::String(out), &text[at + 1..]),
            (_, c) => out.push(c),
        }
    }
}

fn word(text: &str) -> (Value, &str) {
    let end = text.find([',', ']', '}', ' ', '\n']).unwrap_or(text.len());
    let value = match &text[..end] {
        "True" => Value::Bool(true),
        "False" => Value::Bool(false),
        "None" => Value::Null,
        number => Value::Number(number.parse::<i64>().map(Number::from).unwrap()),
    };
    (value, &text[end..])
}
