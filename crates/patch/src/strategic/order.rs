//! Sorting merged lists: the order of the patch, with what only the server has in between.

use serde_json::Value;

use super::Error;

/// Where in `list` an element stands that equals `element`, by key if there is one.
fn position(list: &[Value], element: &Value, key: &str) -> Option<usize> {
    if key.is_empty() {
        return list.iter().position(|other| other == element);
    }
    let wanted = element.as_object().and_then(|map| map.get(key)).unwrap_or(&Value::Null);
    list.iter()
        .position(|other| other.as_object().and_then(|map| map.get(key)).unwrap_or(&Value::Null) == wanted)
}

/// Every element must be an object that has the key.
pub(super) fn check_keys(key: &str, list: &[Value]) -> Result<(), Error> {
    for element in list {
        let map = element.as_object().ok_or_else(|| Error::wrong_type("map[string]interface {}", element))?;
        if !map.contains_key(key) {
            return Err(Error::no_merge_key(map, key));
        }
    }
    Ok(())
}

/// Sorts `list` as in `order`; elements marked for deletion go last.
///
/// An element that `order` lacks counts as smaller than its neighbour: upstream's comparison does that, and its
/// insertion sort thereby moves it to the front.
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

/// Whether an element carries `$patch: delete`.
pub(super) fn is_deletion(element: &Value) -> bool {
    element.get("$patch").is_some_and(|directive| directive == "delete")
}

/// Interleaves the elements that only the server has with those of the patch: an element of the server goes first if both
/// heads were in the server's list and it stood before the other.
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
