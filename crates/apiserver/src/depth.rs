//! The nesting limit of objects.
//!
//! JSON parsers stop at 128 levels: serde_json does, here and in clients. A stored object must stay readable, also inside a
//! list, a watch event or an admission review. So the server accepts less than 128 levels.

use serde_json::Value;

/// The most levels of maps and lists in an object, `metadata.managedFields` included.
pub(crate) const MAX_DEPTH: usize = 100;

/// The most path segments that a message shows.
const MAX_SHOWN: usize = 8;

/// The error for an object that is nested too deeply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path} is nested too deeply: expected at most {MAX_DEPTH} levels of maps and lists, including \
     managedFields"
)]
pub struct DepthError {
    /// The path to the place, truncated for a message.
    pub path: String,
}

/// Checks the depth of a parsed value.
pub(crate) fn check(value: &Value) -> Result<(), DepthError> {
    let mut path = Vec::new();
    if fits(value, MAX_DEPTH, &mut path) {
        return Ok(());
    }
    path.reverse();
    Err(DepthError { path: shown(&path) })
}

/// Returns the number of levels of a value, or `None` if there are more than `most`. Counts the visited values in `steps`.
pub(crate) fn levels(value: &Value, most: usize, steps: &mut u64) -> Option<usize> {
    *steps += 1;
    let mut deepest = 0;
    match value {
        Value::Array(items) => {
            for item in items {
                deepest = deepest.max(levels(item, most.checked_sub(1)?, steps)?);
            }
        }
        Value::Object(map) => {
            for value in map.values() {
                deepest = deepest.max(levels(value, most.checked_sub(1)?, steps)?);
            }
        }
        _ => return Some(0),
    }
    (deepest < most).then_some(deepest + 1)
}

/// Whether a value has at most `left` levels. If not, `path` receives the path to the first place that is too deep, its last
/// segment first.
fn fits(value: &Value, left: usize, path: &mut Vec<String>) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if left == 0 => false,
        Value::Array(items) => items.iter().enumerate().all(|(index, item)| {
            let fits = fits(item, left - 1, path);
            if !fits {
                path.push(format!("[{index}]"));
            }
            fits
        }),
        Value::Object(map) => map.iter().all(|(name, value)| {
            let fits = fits(value, left - 1, path);
            if !fits {
                path.push(format!(".{name}"));
            }
            fits
        }),
        _ => true,
    }
}

fn shown(path: &[String]) -> String {
    let mut text = path.iter().take(MAX_SHOWN).map(String::as_str).collect::<String>();
    if path.len() > MAX_SHOWN {
        text.push_str(" …");
    }
    text.strip_prefix('.').map(str::to_owned).unwrap_or(text)
}

/// Checks the depth of a JSON text before it is parsed. Does not judge whether the text is valid JSON.
pub(crate) fn check_text(text: &[u8]) -> Result<(), DepthError> {
    let mut levels = 0_usize;
    let mut scan = Scan { text, at: 0 };
    while let Some(token) = scan.next_token() {
        match token {
            Token::Open(_) => levels += 1,
            Token::Close => levels = levels.saturating_sub(1),
            Token::Text(_) | Token::Comma | Token::Colon => {}
        }
        if levels > MAX_DEPTH {
            return Err(DepthError { path: path_to_limit(text) });
        }
    }
    Ok(())
}

/// Returns the path to the first place that is too deep.
fn path_to_limit(text: &[u8]) -> String {
    /// A step of the path: a list with the current index, or a map with its last key.
    enum Step<'a> {
        Item(usize),
        Field(&'a [u8]),
    }
    let mut steps: Vec<Step<'_>> = Vec::new();
    let mut last: &[u8] = &[];
    let mut scan = Scan { text, at: 0 };
    while let Some(token) = scan.next_token() {
        match token {
            Token::Open(b'[') => steps.push(Step::Item(0)),
            Token::Open(_) => steps.push(Step::Field(&[])),
            Token::Close => drop(steps.pop()),
            Token::Text(text) => last = text,
            Token::Colon => {
                if let Some(Step::Field(name)) = steps.last_mut() {
                    *name = last;
                }
            }
            Token::Comma => {
                if let Some(Step::Item(index)) = steps.last_mut() {
                    *index += 1;
                }
            }
        }
        if steps.len() > MAX_DEPTH {
            break;
        }
    }
    let path: Vec<String> = steps
        .iter()
        .take(MAX_SHOWN + 1)
        .map(|step| match step {
            Step::Item(index) => format!("[{index}]"),
            Step::Field(name) => format!(".{}", String::from_utf8_lossy(name)),
        })
        .collect();
    shown(&path)
}

/// The tokens of a JSON text that matter for its nesting.
enum Token<'a> {
    Open(u8),
    Close,
    Text(&'a [u8]),
    Comma,
    Colon,
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

// === impl Scan ===

impl<'a> Scan<'a> {
    fn next_token(&mut self) -> Option<Token<'a>> {
        loop {
            let byte = *self.text.get(self.at)?;
            self.at += 1;
            return Some(match byte {
                b'{' | b'[' => Token::Open(byte),
                b'}' | b']' => Token::Close,
                b',' => Token::Comma,
                b':' => Token::Colon,
                b'"' => Token::Text(self.string()),
                _ => continue,
            });
        }
    }

    fn string(&mut self) -> &'a [u8] {
        let begin = self.at;
        while let Some(byte) = self.text.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => return &self.text[begin..self.at - 1],
                b'\\' => self.at += 1,
                _ => {}
            }
        }
        &self.text[begin.min(self.text.len())..]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns an object that has this many levels.
    fn nested(levels: usize) -> Value {
        (1..levels).fold(json!({}), |inner, _| json!({ "a": inner }))
    }

    #[test]
    fn text_and_value_are_judged_alike() {
        for levels in [1, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, MAX_DEPTH + 20] {
            let value = nested(levels);
            assert_eq!(check(&value).is_ok(), levels <= MAX_DEPTH, "{levels}");
            assert_eq!(check_text(value.to_string().as_bytes()), check(&value), "{levels}");
            assert_eq!(super::levels(&value, MAX_DEPTH, &mut 0), (levels <= MAX_DEPTH).then_some(levels));
        }
    }

    #[test]
    fn the_way_down_is_named() {
        let object = json!({"kind": "Thing, {[", "spec": {"b\"[": [1, [2], nested(MAX_DEPTH)]}});
        let told = check_text(object.to_string().as_bytes()).unwrap_err().to_string();
        assert!(
            told.starts_with("spec.b\\\"[[2].a.a.a.a.a … is nested too deeply: expected at most 100 levels"),
            "{told}"
        );
        assert!(check(&object).unwrap_err().path.starts_with("spec.b\"[[2].a"));
    }

    #[test]
    fn what_is_no_json_is_left_to_the_reader() {
        for text in ["", "\"", "\"\\", "{", "]]]]", "nonsense"] {
            assert_eq!(check_text(text.as_bytes()), Ok(()), "{text}");
        }
    }
}
