//! Checks that the validation of several kinds shares.

use std::net::IpAddr;

use serde_json::Value;

use super::names;
use crate::Cause;

const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

/// Returns the text of a field, or an empty text if there is none.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Returns the elements of a list. A missing list is empty.
pub(super) fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Refuses a number below zero.
pub(super) fn not_negative(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.as_i64().is_some_and(|number| number < 0) {
        causes.push(Cause::invalid(path, value, "must be greater than or equal to 0"));
    }
}

/// Refuses a value that is neither a number from zero on nor a percentage. If `whole` is set, the percentage must be at most
/// 100.
pub(super) fn percent(value: &Value, path: &str, whole: bool, causes: &mut Vec<Cause>) {
    not_negative(value, path, causes);
    let Some(given) = value.as_str() else { return };
    let digits = given.strip_suffix('%').filter(|digits| !digits.is_empty());
    match digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
        None => causes.push(Cause::invalid(
            path,
            value,
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
        )),
        Some(digits) if !whole || digits.parse::<u32>().is_ok_and(|percent| percent <= 100) => {}
        Some(_) => causes.push(Cause::invalid(path, value, "must not be greater than 100%")),
    }
}

/// Refuses a text that is not one of the known values. A missing text is valid.
pub(super) fn one_of(value: &Value, path: &str, known: &[&str], causes: &mut Vec<Cause>) {
    if let Some(text) = value.as_str()
        && !known.contains(&text)
    {
        causes.push(Cause::unsupported(path, value, known));
    }
}

/// Refuses a port outside of 1 to 65535.
pub(super) fn port(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.as_i64().is_some_and(|port| !(1..=65535).contains(&port)) {
        causes.push(Cause::invalid(path, value, "must be between 1 and 65535, inclusive"));
    }
}

/// Refuses a text that is not a valid port name.
pub(super) fn port_name(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(name) = value.as_str() else { return };
    let mut wrong = |detail: &str| causes.push(Cause::invalid(path, value, detail));
    if name.len() > 15 {
        wrong("must be no more than 15 characters");
    }
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        wrong("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if name.contains("--") {
        wrong("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong("must not begin or end with a hyphen");
    }
    if !name.chars().any(|c| c.is_ascii_lowercase()) {
        wrong("must contain at least one letter (a-z)");
    }
}

/// Refuses a text that violates the rule for names.
pub(super) fn name(rule: names::NameRule, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    for problem in names::problems(rule, value.as_str().unwrap_or_default()) {
        causes.push(Cause::invalid(path, value, problem));
    }
}

/// Returns a warning if an object's name is valid for the object, but not as the host name of its pods.
pub(super) fn host_warning(object: &Value, used_in: &str) -> Option<String> {
    let found = names::problems(names::NameRule::Label, text(&object["metadata"], "name"));
    (!found.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            found.join(" ")
        )
    })
}

/// Refuses a text that is not a valid label key.
pub(super) fn qualified(key: &str, path: &str, causes: &mut Vec<Cause>) {
    for problem in names::qualified_name_problems(key) {
        causes.push(Cause::invalid(path, &Value::from(key), problem));
    }
}

/// Parses an IP address as Kubernetes does: without leading zeros.
pub(super) fn ip(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

/// Parses a CIDR. Returns its first address (IPv4 mapped into IPv6) and its prefix length.
pub(super) fn cidr(text: &str) -> Option<(u128, u32)> {
    let (address, bits) = text.split_once('/')?;
    let bits: u32 = bits.parse().ok()?;
    match ip(address)? {
        IpAddr::V4(address) => (bits <= 32).then(|| (address.to_ipv6_mapped().to_bits(), bits + 96)),
        IpAddr::V6(address) => (bits <= 128).then(|| (address.to_bits(), bits)),
    }
}

/// Adds all validation errors of labels.
pub(super) fn labels(labels: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        for problem in names::qualified_name_problems(key) {
            causes.push(Cause::invalid(path, &Value::from(key.as_str()), problem));
        }
        let text = value.as_str().unwrap_or_default();
        if let Some(problem) = names::label_value_problem(text) {
            causes.push(Cause::invalid(path, value, problem));
        }
    }
}

/// Returns the first alternative that an object has, and refuses the others. A merge of several layers can produce more than one.
pub(super) fn first_of<'a>(
    object: &Value,
    path: &str,
    alternatives: &[&'a str],
    what: &str,
    causes: &mut Vec<Cause>,
) -> Option<&'a str> {
    let mut given = alternatives.iter().copied().filter(|alternative| object[*alternative].is_object());
    let first = given.next();
    for other in given {
        let detail = format!("may not specify more than 1 {what}");
        causes.push(Cause::forbidden(format!("{path}.{other}"), detail));
    }
    first
}

/// Adds all validation errors of a label selector object.
pub(super) fn selector(selector: &Value, path: &str, causes: &mut Vec<Cause>) {
    labels(&selector["matchLabels"], &format!("{path}.matchLabels"), causes);
    for (index, expression) in items(selector, "matchExpressions").iter().enumerate() {
        let at = format!("{path}.matchExpressions[{index}]");
        let values = items(expression, "values");
        match text(expression, "operator") {
            "In" | "NotIn" if values.is_empty() => causes.push(Cause::required(
                format!("{at}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    causes.push(Cause::forbidden(
                        format!("{at}.values"),
                        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                    ));
                }
            }
            _ => causes.push(Cause::invalid(
                format!("{at}.operator"),
                &Value::from(text(expression, "operator")),
                "not a valid selector operator",
            )),
        }
        if let Some(problem) = names::qualified_name_problem(text(expression, "key")) {
            causes.push(Cause::invalid(format!("{at}.key"), &Value::from(text(expression, "key")), problem));
        }
        for (position, value) in values.iter().enumerate() {
            if let Some(problem) = names::label_value_problem(value.as_str().unwrap_or_default()) {
                causes.push(Cause::invalid(format!("{at}.values[{position}]"), value, problem));
            }
        }
    }
}

/// Adds all validation errors of annotations.
pub(super) fn annotations(annotations: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        size += key.len() + value.as_str().map_or(0, str::len);
        for problem in names::qualified_name_problems(&key.to_ascii_lowercase()) {
            causes.push(Cause::invalid(path, &Value::from(key.as_str()), problem));
        }
    }
    if size > MAX_ANNOTATIONS_BYTES {
        causes.push(Cause::too_long(path, MAX_ANNOTATIONS_BYTES));
    }
}
