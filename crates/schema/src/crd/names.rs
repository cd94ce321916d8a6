//! Determines which names a definition may use, and sets the conditions that report it.

use serde_json::{Map, Value, json};

/// Names that are in use in a group.
#[derive(Default)]
struct NamesInUse {
    resources: Vec<String>,
    kinds: Vec<String>,
}

/// Returns the status that `crd` should have, or `None` if it has that status already. `others` are all definitions; those of
/// other groups and `crd` itself are ignored. `now` is an RFC 3339 time.
pub fn names_status(crd: &Value, others: &[&Value], now: &str) -> Option<Value> {
    let spec = &crd["spec"];
    let own = &crd["metadata"]["name"];
    let mut in_use = NamesInUse::default();
    for other in
        others.iter().filter(|o| o["spec"]["group"] == spec["group"] && o["metadata"]["name"] != *own)
    {
        let names = &other["status"]["acceptedNames"];
        in_use.resources.extend(
            texts(&names["plural"]).chain(texts(&names["singular"])).chain(texts(&names["shortNames"])),
        );
        in_use.kinds.extend(texts(&names["kind"]).chain(texts(&names["listKind"])));
    }

    let names = &spec["names"];
    let mut accepted = crd["status"]["acceptedNames"].as_object().cloned().unwrap_or_default();
    let mut conflict = None;
    for (field, reason, in_use) in [
        ("plural", "PluralConflict", &in_use.resources),
        ("singular", "SingularConflict", &in_use.resources),
        ("shortNames", "ShortNamesConflict", &in_use.resources),
        ("kind", "KindConflict", &in_use.kinds),
        ("listKind", "ListKindConflict", &in_use.kinds),
    ] {
        let clashes: Vec<String> = texts(&names[field])
            .filter(|name| in_use.contains(name))
            .map(|name| format!("{name:?} is already in use"))
            .collect();
        if clashes.is_empty() {
            copy(&mut accepted, names, field);
        } else {
            conflict = Some((reason, clashes.join(", ")));
        }
    }
    copy(&mut accepted, names, "categories");
    for field in ["plural", "kind"] {
        accepted.entry(field).or_insert_with(|| "".into());
    }

    let mut status = crd["status"].as_object().cloned().unwrap_or_default();
    status.insert("acceptedNames".to_owned(), Value::Object(accepted));
    let mut conditions = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    match conflict {
        None => {
            put(&mut conditions, "NamesAccepted", true, "NoConflicts", "no conflicts found", now);
            put(
                &mut conditions,
                "Established",
                true,
                "InitialNamesAccepted",
                "the initial names have been accepted",
                now,
            );
        }
        Some((reason, message)) => {
            put(&mut conditions, "NamesAccepted", false, reason, &message, now);
            // A definition that is established stays so, with the names that were accepted before.
            if !conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True") {
                put(&mut conditions, "Established", false, "NotAccepted", "not all names are accepted", now);
            }
        }
    }
    status.insert("conditions".to_owned(), Value::Array(conditions));
    let status = Value::Object(status);
    (status != crd["status"]).then_some(status)
}

/// Sets the `Terminating` condition: pending when a definition is marked for deletion, in progress while its objects are
/// deleted. Returns whether the conditions changed.
pub fn terminating(crd: &mut Value, in_progress: bool, now: &str) -> bool {
    let before = crd["status"]["conditions"].clone();
    let mut conditions = before.as_array().cloned().unwrap_or_default();
    let (reason, message) = if in_progress {
        ("InstanceDeletionInProgress", "CustomResource deletion is in progress")
    } else {
        (
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        )
    };
    put(&mut conditions, "Terminating", true, reason, message, now);
    let after = Value::Array(conditions);
    let changed = after != before;
    if changed {
        crd["status"]["conditions"] = after;
    }
    changed
}

fn put(conditions: &mut Vec<Value>, kind: &str, truth: bool, reason: &str, message: &str, now: &str) {
    let status = if truth { "True" } else { "False" };
    let position = conditions.iter().position(|c| c["type"] == kind);
    let since = position
        .map(|at| &conditions[at])
        .filter(|old| old["status"] == status)
        .and_then(|old| old["lastTransitionTime"].as_str())
        .unwrap_or(now);
    let condition = json!({
        "type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    match position {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

fn copy(accepted: &mut Map<String, Value>, names: &Value, field: &str) {
    match names.get(field) {
        Some(value) => accepted.insert(field.to_owned(), value.clone()),
        None => accepted.remove(field),
    };
}

/// The strings in a value, which is a string or a list of strings. Empty strings are left out.
fn texts(value: &Value) -> impl Iterator<Item = String> + '_ {
    let one = std::iter::once(value);
    let many = value.as_array().into_iter().flatten();
    one.chain(many).filter_map(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}
