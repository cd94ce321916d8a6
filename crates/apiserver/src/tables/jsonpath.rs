//! The JSONPath of printer columns: fields, indexes, wildcards, filters that compare with one value.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step<'a> {
    Field(String),
    Index(i64),
    All,
    Filter(&'a str, &'a str, String),
}

/// Returns the values at `path` in `object`, or no values if the path is not understood.
pub(super) fn find<'v>(object: &'v Value, path: &str) -> Vec<&'v Value> {
    let Some(steps) = parse(path) else { return Vec::new() };
    let mut found = vec![object];
    for step in steps {
        found = found.into_iter().flat_map(|value| apply(value, &step)).collect();
    }
    found.retain(|value| !value.is_null());
    found
}

fn apply<'v>(value: &'v Value, step: &Step<'_>) -> Vec<&'v Value> {
    match step {
        Step::Field(name) => value.get(name.as_str()).into_iter().collect(),
        Step::Index(index) => {
            let Some(items) = value.as_array() else { return Vec::new() };
            let index = if *index < 0 {
                usize::try_from(index.unsigned_abs()).ok().and_then(|back| items.len().checked_sub(back))
            } else {
                usize::try_from(*index).ok()
            };
            index.and_then(|i| items.get(i)).into_iter().collect()
        }
        Step::All => match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(fields) => fields.values().collect(),
            _ => Vec::new(),
        },
        Step::Filter(path, operator, wanted) => value
            .as_array()
            .into_iter()
            .flatten()
            .filter(|item| {
                let found = find(item, path);
                let equal = found.first().is_some_and(|v| match v {
                    Value::String(text) => text == wanted,
                    other => other.to_string() == *wanted,
                });
                if *operator == "!=" { !equal } else { equal }
            })
            .collect(),
    }
}

fn parse(path: &str) -> Option<Vec<Step<'_>>> {
    let mut steps = Vec::new();
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after)?;
            let (inside, tail) = after.split_at(end);
            rest = &tail[1..];
            let inside = inside.trim();
            steps.push(if inside == "*" {
                Step::All
            } else if let Some(filter) = inside.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
                filter_step(filter)?
            } else if let Ok(index) = inside.parse() {
                Step::Index(index)
            } else {
                Step::Field(inside.trim_matches(['\'', '"']).to_owned())
            });
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let mut name = String::new();
            let mut end = rest.len();
            let mut escaped = false;
            for (at, c) in rest.char_indices() {
                match c {
                    _ if escaped => {
                        name.push(c);
                        escaped = false;
                    }
                    '\\' => escaped = true,
                    '.' | '[' => {
                        end = at;
                        break;
                    }
                    _ => name.push(c),
                }
            }
            if name.is_empty() {
                return None;
            }
            steps.push(if name == "*" { Step::All } else { Step::Field(name) });
            rest = &rest[end..];
        }
    }
    Some(steps)
}

/// Returns the position of the closing bracket, skipping strings and inner brackets.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn filter_step(filter: &str) -> Option<Step<'_>> {
    let operator = if filter.contains("!=") { "!=" } else { "==" };
    let (path, wanted) = filter.split_once(operator)?;
    let path = path.trim().strip_prefix('@')?;
    let wanted = wanted.trim().trim_matches(['\'', '"']).to_owned();
    Some(Step::Filter(path, operator, wanted))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::find;

    #[test]
    fn fields_indexes_wildcards_and_filters_are_found() {
        let object = json!({"spec": {"a.b": 1, "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}]}});
        assert_eq!(find(&object, ".spec.list[1].v"), [&json!(2)]);
        assert_eq!(find(&object, ".spec.list[*].n"), [&json!("x"), &json!("y")]);
        assert_eq!(find(&object, ".spec.list[?(@.n==\"y\")].v"), [&json!(2)]);
        assert_eq!(find(&object, ".spec['a.b']"), [&json!(1)]);
        assert_eq!(find(&object, ".spec.a\\.b"), [&json!(1)]);
        assert!(find(&object, ".none[").is_empty());
    }
}
