//! RFC 6902 as the reference's library reads it: `replace` of a key that is missing adds it, and `test` takes a missing
//! key for null.

use serde_json::Value;

/// Carries out all operations, or none: the reference does not say which one failed.
pub(super) fn apply(mut document: Value, operations: &Value) -> Result<Value, ()> {
    for operation in operations.as_array().ok_or(())? {
        step(&mut document, operation)?;
    }
    Ok(document)
}

fn step(document: &mut Value, operation: &Value) -> Result<(), ()> {
    let path = tokens(operation["path"].as_str().ok_or(())?)?;
    let value = || operation.get("value").cloned().ok_or(());
    let from = || tokens(operation["from"].as_str().ok_or(())?);
    match operation["op"].as_str() {
        Some("add") => put(document, &path, value()?, true),
        Some("replace") => put(document, &path, value()?, false),
        Some("remove") => take(document, &path).map(drop),
        Some("move") => {
            let moved = take(document, &from()?)?;
            put(document, &path, moved, true)
        }
        Some("copy") => {
            let copied = get(document, &from()?).cloned().ok_or(())?;
            put(document, &path, copied, true)
        }
        Some("test") => {
            let expected = operation.get("value").unwrap_or(&Value::Null);
            let found = get(document, &path).unwrap_or(&Value::Null);
            if found == expected { Ok(()) } else { Err(()) }
        }
        _ => Err(()),
    }
}

fn tokens(pointer: &str) -> Result<Vec<String>, ()> {
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let rest = pointer.strip_prefix('/').ok_or(())?;
    Ok(rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect())
}

fn get<'a>(document: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(document, |value, token| match value {
        Value::Object(map) => map.get(token),
        Value::Array(list) => list.get(index(token, list.len())?),
        _ => None,
    })
}

fn get_mut<'a>(document: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(document, |value, token| match value {
        Value::Object(map) => map.get_mut(token),
        Value::Array(list) => {
            let at = index(token, list.len())?;
            list.get_mut(at)
        }
        _ => None,
    })
}

/// A position in a list; negative ones count from its end.
fn index(token: &str, len: usize) -> Option<usize> {
    match token.strip_prefix('-') {
        Some(back) => len.checked_sub(back.parse().ok()?),
        None => token.parse().ok(),
    }
}

fn put(document: &mut Value, path: &[String], value: Value, insert: bool) -> Result<(), ()> {
    let Some((name, parents)) = path.split_last() else {
        *document = value;
        return Ok(());
    };
    match get_mut(document, parents).ok_or(())? {
        Value::Object(map) => {
            map.insert(name.clone(), value);
            Ok(())
        }
        Value::Array(list) if insert && name == "-" => {
            list.push(value);
            Ok(())
        }
        Value::Array(list) => {
            let at = index(name, list.len()).ok_or(())?;
            if insert && at <= list.len() {
                list.insert(at, value);
            } else {
                *list.get_mut(at).ok_or(())? = value;
            }
            Ok(())
        }
        _ => Err(()),
    }
}

fn take(document: &mut Value, path: &[String]) -> Result<Value, ()> {
    let (name, parents) = path.split_last().ok_or(())?;
    match get_mut(document, parents).ok_or(())? {
        Value::Object(map) => map.remove(name).ok_or(()),
        Value::Array(list) => {
            let at = index(name, list.len()).filter(|at| *at < list.len()).ok_or(())?;
            Ok(list.remove(at))
        }
        _ => Err(()),
    }
}
