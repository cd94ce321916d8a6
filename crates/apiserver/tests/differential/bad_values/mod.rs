//! Objects of each kind that users write, with a bad value in every place. What a real server refuses must be refused here, at
//! the same fields.

mod objects;

use serde_json::{Value, json};

use crate::{
    api::Api,
    empty_values::only,
    requests::{Request, Verb, places},
};

/// Creates the objects whose updates are tried.
pub(crate) fn set_up(api: &Api) {
    for (index, (path, mut object)) in objects::all().into_iter().enumerate() {
        object["metadata"]["name"] = json!(live(index));
        api.post(path, &object).ok();
    }
}

/// Returns an object for each bad value, which is created, and some changes to a stored object.
pub(crate) fn requests() -> Vec<Request> {
    let created = objects::all().into_iter().flat_map(|(path, object)| {
        bad_values(&object, usize::MAX).into_iter().map(move |(place, value)| {
            let mut body = object.clone();
            *body.pointer_mut(&place).unwrap() = value;
            Request { verb: Verb::Post, path: format!("{path}?dryRun=All"), body }
        })
    });
    let changed = objects::all().into_iter().enumerate().flat_map(|(index, (path, object))| {
        bad_values(&object, 2).into_iter().map(move |(place, value)| {
            let path = format!("{path}/{}?dryRun=All", live(index));
            Request { verb: Verb::Merge, path, body: only(&object, &place, value) }
        })
    });
    created.chain(changed).collect()
}

fn live(index: usize) -> String {
    format!("rich-{index}")
}

/// Returns each place of an object with up to `most` values that are tried there.
fn bad_values(object: &Value, most: usize) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    places(object, "", &mut found);
    found.retain(|place| place != "/metadata/name");
    let values = |place: String| {
        let values = others(object.pointer(&place).unwrap());
        values.into_iter().take(most).map(move |value| (place.clone(), value))
    };
    found.into_iter().flat_map(values).collect()
}

/// Returns other values of the same type, most of which are wrong in most places.
fn others(value: &Value) -> Vec<Value> {
    let mut others = match value {
        // Bytes that are JSON: others that are JSON, and some that are not.
        Value::String(text) if text == "e30=" => {
            Vec::from(["", "bm8=", "bnVsbA==", "W10=", "eyI="].map(Value::from))
        }
        Value::String(_) => {
            let mut texts = Vec::from(["x/y", "", "a b", "A_b", "-1"].map(Value::from));
            texts.push(json!("a".repeat(300)));
            texts
        }
        Value::Number(number) => {
            let next = number.as_i64().unwrap_or(0) + 1;
            Vec::from([next, -1, 0, 65_536, 100_001, 2_000_000_001].map(Value::from))
        }
        Value::Bool(truth) => vec![json!(!truth)],
        Value::Array(items) => {
            vec![json!(null), json!([]), json!([items.as_slice(), items.as_slice()].concat())]
        }
        Value::Object(fields) => {
            let mut more = fields.clone();
            let is_map = fields.values().all(Value::is_string);
            let first = fields.values().next().filter(|_| is_map).cloned();
            more.extend(first.map(|value| ("a b".to_owned(), value)));
            vec![json!(null), json!({}), more.into()]
        }
        Value::Null => Vec::new(),
    };
    others.retain(|other| other != value);
    others
}
