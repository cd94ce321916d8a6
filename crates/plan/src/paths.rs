//! Paths of fields in the form that users write: `spec.template.containers[main].args[0]`.
//!
//! Elements of a list are addressed by position, by the value of their key (`[main]`), or by key and value (`[name=main]`).

use std::{collections::HashSet, fmt::Write as _};

use longboat_compose::field_path::FieldPath;
pub use longboat_compose::field_path::{Step, parse};
use serde_json::Value;

/// Formats steps as a path.
pub fn written(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            Step::Field(name) if text.is_empty() => text.push_str(name),
            Step::Field(name) => {
                text.push('.');
                text.push_str(name);
            }
            Step::Bracket(inner) => {
                // Writing to a String cannot fail.
                let _ = write!(text, "[{inner}]");
            }
        }
    }
    text
}

/// Whether the user's path leads to the field with this path and JSON pointer, or to one of its parents.
pub fn leads_to(pattern: &[Step], path: &str, pointer: &str) -> bool {
    let Some(steps) = parse(path) else { return false };
    let positions: Vec<&str> = pointer.split('/').skip(1).collect();
    pattern.len() <= steps.len()
        && pattern.iter().zip(&steps).zip(&positions).all(|((pattern, step), at)| same(pattern, step, at))
}

fn same(pattern: &Step, step: &Step, position: &str) -> bool {
    match (pattern, step) {
        (Step::Field(pattern) | Step::Bracket(pattern), Step::Field(name))
        | (Step::Field(pattern), Step::Bracket(name)) => pattern == name,
        (Step::Bracket(pattern), Step::Bracket(name)) => {
            pattern == name
                || pattern == position
                || name.split_once('=').is_some_and(|(_, value)| pattern == value)
        }
    }
}

/// A field and its value.
pub type Leaf<'a> = (FieldPath, &'a Value);

/// Returns the scalars, empty objects and empty lists in an object. Elements with a name are addressed by it.
pub fn leaves(value: &Value) -> Vec<Leaf<'_>> {
    let mut found = Vec::new();
    walk(value, FieldPath::default(), &mut found);
    found
}

fn walk<'a>(value: &'a Value, place: FieldPath, found: &mut Vec<Leaf<'a>>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, member) in map {
                let mut inner = place.clone();
                inner.enter(key);
                walk(member, inner, found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let names = unique_names(items);
            for (i, item) in items.iter().enumerate() {
                let mut inner = place.clone();
                inner.enter_element(names.as_ref().map(|names| format!("name={}", names[i])).as_deref(), i);
                walk(item, inner, found);
            }
        }
        _ => found.push((place, value)),
    }
}

/// Returns the path of the place to which a JSON pointer leads. The object may lack the last fields.
pub(crate) fn of_pointer(object: &Value, pointer: &str) -> String {
    let mut place = FieldPath::default();
    let mut found = Some(object);
    for token in pointer.split('/').skip(1) {
        // In this order (RFC 6901, section 4): `~01` is the key `~1`.
        let key = token.replace("~1", "/").replace("~0", "~");
        match (found, key.parse::<usize>()) {
            (Some(Value::Array(items)), Ok(at)) => {
                let name = unique_names(items).and_then(|names| Some(format!("name={}", names.get(at)?)));
                place.enter_element(name.as_deref(), at);
            }
            _ => place.enter(&key),
        }
        found = found.and_then(|found| found.pointer(&format!("/{token}")));
    }
    place.path
}

/// Returns the path of a field with positions in place of names, for an object that may have additional elements. Returns
/// `None` if the object does not have the field.
pub fn positions(object: &Value, path: &str) -> Option<String> {
    let mut found = object;
    let mut result = String::new();
    for step in parse(path)? {
        let (next, at) = step.follow(found)?;
        found = next;
        let _ = match (&step, at) {
            (_, Some(at)) => write!(result, "[{at}]"),
            (Step::Field(name), None) => write!(result, ".{name}"),
            (Step::Bracket(text), None) => write!(result, "[{text}]"),
        };
    }
    Some(result.trim_start_matches('.').to_owned())
}

/// The names of the elements of a list, if all have one and no two have the same.
fn unique_names(items: &[Value]) -> Option<Vec<&str>> {
    let names: Vec<&str> = items.iter().map(|item| item.get("name")?.as_str()).collect::<Option<_>>()?;
    let different: HashSet<&str> = names.iter().copied().collect();
    (different.len() == names.len()).then_some(names)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{leads_to, leaves, of_pointer, parse, positions};

    #[test]
    fn an_element_is_found_by_position_by_name_and_by_key() {
        let (path, pointer) = ("template.containers[name=main].args[2]", "/template/containers/1/args/2");
        for pattern in [
            "template",
            "template.containers",
            "template.containers[main]",
            "template.containers[name=main].args",
            "template.containers[1].args[2]",
        ] {
            assert!(leads_to(&parse(pattern).unwrap(), path, pointer), "{pattern}");
        }
        for pattern in [
            "templates",
            "template.containers[0]",
            "template.containers[side]",
            "template.containers[main].args[2].x",
        ] {
            assert!(!leads_to(&parse(pattern).unwrap(), path, pointer), "{pattern}");
        }
        assert!(parse("a[b").is_none());
    }

    #[test]
    fn each_name_of_a_long_list_is_read_once() {
        // With a look at each name for each name, these are some thousand million looks.
        let many: Vec<_> = (0..100_000).map(|number| json!({"name": format!("n{number}")})).collect();
        let object = json!({"list": many});
        assert_eq!(leaves(&object)[99_999].0.path, "list[name=n99999].name");
        assert_eq!(of_pointer(&object, "/list/99999/x"), "list[name=n99999].x");
    }

    #[test]
    fn keys_with_dots_are_written_in_brackets() {
        let object = json!({"labels": {"a.b/c": "x"}, "list": [{"name": "n", "v": 1}, {"name": "m"}]});
        let found = leaves(&object);
        let paths: Vec<&str> = found.iter().map(|(place, _)| place.path.as_str()).collect();
        assert_eq!(paths, [r#"labels["a.b/c"]"#, "list[name=n].name", "list[name=n].v", "list[name=m].name"]);
        for (place, value) in &found {
            assert_eq!(object.pointer(&place.pointer), Some(*value));
            assert!(positions(&object, &place.path).is_some(), "{}", place.path);
            assert_eq!(of_pointer(&object, &place.pointer), place.path);
        }
        assert!(leads_to(&parse("labels[a.b/c]").unwrap(), &found[0].0.path, &found[0].0.pointer));
        assert_eq!(positions(&object, "list[name=m].name").as_deref(), Some("list[1].name"));
        assert_eq!(
            of_pointer(&object, "/list/1/more/0/x"),
            "list[name=m].more.0.x",
            "what is missing has no lists"
        );
    }
}
