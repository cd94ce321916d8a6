//! Sorts merged lists: elements are in the order of the patch, with elements in between that only the server has.

use serde_json::Value;

use super::Error;

/// The position in `list` of an element that equals `element`. Elements are compared by `key` unless it is empty.
fn position(list: &[Value], element: &Value, key: &str) -> Option<usize> {
    if key.is_empty() {
        return list.iter().position(|other| other == element);
    }
    let wanted = element.as_object().and_then(|map| map.get(key)).unwrap_or(&Value::Null);
    list.iter()
        .position(|other| other.as_object().and_then(|map| map.get(key)).unwrap_or(&Value::Null) == wanted)
}

/// Checks that every element is an object with the key.
pub(super) fn check_keys(key: &str, list: &[Value]) -> Result<(), Error> {
    for element in list {
        let map = element.as_object().ok_or_else(|| Error::wrong_type("map[string]interface {}", element))?;
        if !map.contains_key(key) {
            return Err(Error::no_merge_key(map, key));
        }
    }
    Ok(())
}

/// Sorts `list` like `order`. Elements to be deleted come last.
///
/// An element that is not in `order` counts as smaller than its neighbour. Upstream's comparison does that, so its insertion
/// sort moves the element to the front.
pub(super) fn sort_as(list: Vec<Value>, order: &[Value], key: &str, maps: bool) -> Result<Vec<Value>, Error> {
    let (mut sorted, deleted): (Vec<Value>, Vec<Value>) = if maps {
        check_keys(key, &list)?;
        check_keys(key, order)?;
        list.into_iter().partition(|element| !is_deletion(element))
    } else {
        (list, Vec::new())
    };
    for end in 1..sorted.len() {
        let mut at = end;
        while at > 0 && goes_before(&sorted[at], &sorted[at - 1], order, key) {
            sorted.swap(at, at - 1);
            at -= 1;
        }
    }
    sorted.extend(deleted);
    Ok(sorted)
}

fn goes_before(left: &Value, right: &Value, order: &[Value], key: &str) -> bool {
    match (position(order, left, key), position(order, right, key)) {
        (Some(left), Some(right)) => left < right,
        _ => true,
    }
}

/// Whether an element has `$patch: delete`.
pub(super) fn is_deletion(element: &Value) -> bool {
    element.get("$patch").is_some_and(|directive| directive == "delete")
}

/// Interleaves the elements that only the server has with those of the patch. When two elements are compared, the server's
/// goes first if both are in the server's list and it precedes the other there.
pub(super) fn interleave(
    server_only: Vec<Value>,
    patch: Vec<Value>,
    server: &[Value],
    key: &str,
) -> Vec<Value> {
    let mut merged = Vec::with_capacity(server_only.len() + patch.len());
    let mut left = server_only.into_iter().peekable();
    let mut right = patch.into_iter().peekable();
    loop {
        let take_left = match (left.peek(), right.peek()) {
            (None, None) => return merged,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(of_server), Some(of_patch)) => {
                match (position(server, of_server, key), position(server, of_patch, key)) {
                    (Some(left_at), Some(right_at)) => left_at < right_at,
                    _ => false,
                }
            }
        };
        merged.extend(if take_left { left.next() } else { right.next() });
    }
}
