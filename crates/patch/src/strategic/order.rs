//! Sorts merged lists: elements are in the order of the patch, with elements in between that only the server has.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::Value;

use super::Error;

/// What identifies an element of a list: the value of its key, or the element itself if `key` is empty.
pub(super) fn identity<'v>(element: &'v Value, key: &str) -> &'v Value {
    if key.is_empty() { element } else { element.get(key).unwrap_or(&Value::Null) }
}

/// The position of the first element of a list with each identity. A request may have lists of tens of thousands of elements,
/// so nothing here searches a list for each element of another.
pub(super) struct Positions<'v> {
    key: &'v str,
    first: HashMap<&'v Value, usize>,
}

// === impl Positions ===

impl<'v> Positions<'v> {
    pub(super) fn of(list: &'v [Value], key: &'v str) -> Self {
        let mut first = HashMap::with_capacity(list.len());
        for (at, element) in list.iter().enumerate() {
            first.entry(identity(element, key)).or_insert(at);
        }
        Self { key, first }
    }

    pub(super) fn find(&self, element: &Value) -> Option<usize> {
        self.first.get(identity(element, self.key)).copied()
    }
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
/// An element that is not in `order` counts as smaller than its neighbour. Upstream's comparison does that, and its insertion
/// sort then moves the element to the front.
pub(super) fn sort_as(list: Vec<Value>, order: &[Value], key: &str, maps: bool) -> Result<Vec<Value>, Error> {
    let (ordered, deleted): (Vec<Value>, Vec<Value>) = if maps {
        check_keys(key, &list)?;
        check_keys(key, order)?;
        list.into_iter().partition(|element| !is_deletion(element))
    } else {
        (list, Vec::new())
    };
    let positions = Positions::of(order, key);
    // What the insertion sort does: the elements with a position stay sorted, and each has a tail of elements without one. A
    // new element passes the tail of its predecessor, which so becomes its own. The head of the list has a tail, too.
    let mut sorted = BTreeMap::from([(None, (None, VecDeque::new()))]);
    for (nth, element) in ordered.into_iter().enumerate() {
        match positions.find(&element) {
            None => {
                if let Some(mut head) = sorted.first_entry() {
                    head.get_mut().1.push_front(element);
                }
            }
            Some(at) => {
                let place = Some((at, nth));
                let tail = sorted.range_mut(..place).next_back().map(|(_, (_, tail))| std::mem::take(tail));
                sorted.insert(place, (Some(element), tail.unwrap_or_default()));
            }
        }
    }
    Ok(sorted
        .into_values()
        .flat_map(|(element, tail)| element.into_iter().chain(tail))
        .chain(deleted)
        .collect())
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
    let positions = Positions::of(server, key);
    let mut merged = Vec::with_capacity(server_only.len() + patch.len());
    let mut left = server_only.into_iter().peekable();
    let mut right = patch.into_iter().peekable();
    loop {
        let take_left = match (left.peek(), right.peek()) {
            (None, None) => return merged,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(of_server), Some(of_patch)) => {
                match (positions.find(of_server), positions.find(of_patch)) {
                    (Some(left_at), Some(right_at)) => left_at < right_at,
                    _ => false,
                }
            }
        };
        merged.extend(if take_left { left.next() } else { right.next() });
    }
}
