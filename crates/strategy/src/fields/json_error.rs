//! Errors of texts that are no JSON.

/// Rewrites an error of serde_json in the words of Go's encoding/json, where the two correspond.
pub fn json_error(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let mut offset = 0;
    for (number, line) in bytes.split(|b| *b == b'\n').enumerate() {
        if number + 1 == error.line() {
            offset += error.column().saturating_sub(1);
            break;
        }
        offset += line.len() + 1;
    }
    let text = error.to_string();
    let Some(found) = bytes.get(offset).copied() else {
        return text;
    };
    let before = bytes[..offset].iter().rev().take_while(|b| b.is_ascii_lowercase()).count();
    if text.starts_with("expected ident")
        && let Some(literal) =
            ["null", "true", "false"].iter().find(|l| l.as_bytes().first() == bytes.get(offset - before))
        && let Some(wanted) = literal.chars().nth(before)
    {
        let found = char::from(found);
        return format!("invalid character {found:?} in literal {literal} (expecting {wanted:?})");
    }
    let place = if text.starts_with("trailing characters") {
        "after top-level value"
    } else if text.starts_with("key must be a string") {
        "looking for beginning of object key string"
    } else if text.starts_with("expected `:`") {
        "after object key"
    } else if text.contains("or `}`") {
        "after object key:value pair"
    } else if text.contains("or `]`") {
        "after array element"
    } else {
        "looking for beginning of value"
    };
    format!("invalid character {:?} {place}", char::from(found))
}
