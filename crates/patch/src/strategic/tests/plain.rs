//! The steps of a list merge in their plain form, which searches the lists for each element as upstream does. The real form
//! must have the same results in less time.

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::super::{Error, MergeType, merge, order};

fn position(list: &[Value], element: &Value, key: &str) -> Option<usize> {
    let of = |element: &Value| {
        if key.is_empty() { element.clone() } else { element.get(key).cloned().unwrap_or_default() }
    };
    list.iter().position(|other| of(other) == of(element))
}

fn sort_as(mut list: Vec<Value>, order: &[Value], key: &str) -> Vec<Value> {
    let goes_before =
        |left: &Value, right: &Value| match (position(order, left, key), position(order, right, key)) {
            (Some(left), Some(right)) => left < right,
            _ => true,
        };
    for end in 1..list.len() {
        let mut at = end;
        while at > 0 && goes_before(&list[at], &list[at - 1]) {
            list.swap(at, at - 1);
            at -= 1;
        }
    }
    list
}

fn interleave(server_only: Vec<Value>, patch: Vec<Value>, server: &[Value], key: &str) -> Vec<Value> {
    let mut merged = Vec::new();
    let (mut left, mut right) = (server_only.into_iter().peekable(), patch.into_iter().peekable());
    while let (Some(of_server), Some(of_patch)) = (left.peek(), right.peek()) {
        let first = match (position(server, of_server, key), position(server, of_patch, key)) {
            (Some(left_at), Some(right_at)) => left_at < right_at,
            _ => false,
        };
        merged.extend(if first { left.next() } else { right.next() });
    }
    merged.extend(left.chain(right));
    merged
}

fn deduplicate(list: &mut Vec<Value>) {
    let mut at = 0;
    while at + 1 < list.len() {
        let mut other = at + 1;
        while other < list.len() {
            if list[at] == list[other] {
                list.swap_remove(other);
            } else {
                other += 1;
            }
        }
        at += 1;
    }
}

fn written_to(mut server: Vec<Value>, patch: &[Value], key: &str) -> Vec<Value> {
    let places = server.len();
    let (directives, elements): (Vec<&Value>, Vec<&Value>) =
        patch.iter().partition(|element| element.get("$patch").is_some());
    for directive in &directives {
        if order::is_deletion(directive) {
            server.retain(|element| element.get(key) != directive.get(key));
        }
    }
    let replaces = directives.iter().any(|directive| directive["$patch"] == "replace");
    for element in elements {
        if !replaces && server.len() < places && position(&server, element, key).is_none() {
            server.push(element.clone());
        }
    }
    server
}

fn elements(mut base: Vec<Value>, patch: &[Value], inner: MergeType, key: &str) -> Result<Vec<Value>, Error> {
    for element in patch {
        let found = base.iter_mut().find(|other| other.get(key) == element.get(key));
        match (found, element) {
            (Some(Value::Object(current)), Value::Object(map)) => {
                *current = merge::objects(std::mem::take(current), map.clone(), inner)?;
            }
            _ => base.push(element.clone()),
        }
    }
    Ok(base)
}

fn key() -> impl Strategy<Value = Value> {
    prop_oneof![
        8 => "[a-f]".prop_map(Value::from),
        1 => (0..3_i64).prop_map(Value::from),
        1 => Just(json!(1.0)),
        1 => any::<bool>().prop_map(Value::from),
    ]
}

fn named() -> impl Strategy<Value = Value> {
    (key(), prop::option::of("[x-z]")).prop_map(|(name, image)| match image {
        Some(image) => json!({"name": name, "image": image}),
        None => json!({"name": name}),
    })
}

fn named_or_directive() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => named(),
        1 => key().prop_map(|name| json!({"name": name, "$patch": "delete"})),
        1 => prop::option::of(key()).prop_map(|name| match name {
            Some(name) => json!({"name": name, "$patch": "replace"}),
            None => json!({"$patch": "replace"}),
        }),
    ]
}

proptest! {
    #[test]
    fn lists_are_sorted_alike(list in vec(named(), 0..9), other in vec(named(), 0..9)) {
        let sorted = order::sort_as(list.clone(), &other, "name", true).unwrap();
        prop_assert_eq!(sorted, sort_as(list.clone(), &other, "name"));
        let sorted = order::sort_as(list.clone(), &other, "", false).unwrap();
        prop_assert_eq!(sorted, sort_as(list, &other, ""));
    }

    #[test]
    fn lists_are_interleaved_alike(
        left in vec(named(), 0..9), right in vec(named(), 0..9), server in vec(named(), 0..9)
    ) {
        let merged = order::interleave(left.clone(), right.clone(), &server, "name");
        prop_assert_eq!(merged, interleave(left, right, &server, "name"));
    }

    #[test]
    fn repeated_scalars_go_alike(list in vec(key(), 0..20)) {
        let (mut one, mut other) = (list.clone(), list);
        merge::deduplicate(&mut one);
        deduplicate(&mut other);
        prop_assert_eq!(one, other);
    }

    #[test]
    fn elements_merge_alike(base in vec(named(), 0..9), patch in vec(named(), 0..9)) {
        let inner = MergeType::Free;
        let merged = merge::elements(base.clone(), &patch, inner, "name").unwrap();
        prop_assert_eq!(merged, elements(base, &patch, inner, "name").unwrap());
    }

    #[test]
    fn the_state_to_sort_by_is_the_same(
        server in vec(named(), 0..9), patch in vec(named_or_directive(), 0..9)
    ) {
        let written = merge::as_upstream_sorts(server.clone(), &patch, "name");
        prop_assert_eq!(written, written_to(server, &patch, "name"));
    }
}
