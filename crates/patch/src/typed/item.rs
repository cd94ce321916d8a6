//! The path element that identifies an element of a list.

use serde_json::Value;

use crate::{
    fields::Element,
    gofmt,
    schema::{List, Relation},
};

/// Returns the path element for an element of a list that is not atomic. The error has structured-merge-diff's text.
pub(super) fn element_of(list: &List<'_>, child: &Value) -> Result<Element, String> {
    match &list.relation {
        Relation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        Relation::Keys(keys) => keyed(list, keys, child),
        Relation::Set => match child {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            scalar => Ok(Element::Value(scalar.clone())),
        },
    }
}

fn keyed(list: &List<'_>, keys: &[&str], child: &Value) -> Result<Element, String> {
    let map = match child {
        Value::Object(map) => map,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let fields = list.element.atom().map;
    let mut found: Vec<(String, Value)> = keys
        .iter()
        .filter_map(|key| {
            let value = map.get(*key).or_else(|| fields.as_ref()?.field(key)?.default)?;
            Some(((*key).to_owned(), value.clone()))
        })
        .collect();
    if found.is_empty() {
        let names: Vec<String> = keys.iter().map(|key| gofmt::quote(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            names.join(" ")
        ));
    }
    found.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(Element::Key(found))
}
