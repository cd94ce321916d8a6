//! Checks that the validation of several kinds shares.

use std::{collections::BTreeSet, net::IpAddr, ops::RangeBounds};

use serde_json::Value;

use super::names;
use crate::Field;

const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;
pub(super) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
pub(super) const NOT_DISTINCT: &str = "name is neither a standard finalizer name nor is it fully qualified";
pub(super) const IMMUTABLE: &str = "field is immutable";
pub(super) const NOT_A_PORT: &str = "must be between 1 and 65535, inclusive";
pub(super) const NOT_A_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
pub(super) const NOT_AN_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// Refuses a number below zero.
pub(super) fn not_negative(number: &Field<'_>) {
    within(number, 0.., "must be greater than or equal to 0");
}

/// Refuses a number outside of a range.
pub(super) fn within(number: &Field<'_>, range: impl RangeBounds<i64>, detail: &str) {
    if number.as_i64().is_some_and(|number| !range.contains(&number)) {
        number.invalid(detail);
    }
}

/// Refuses a value whose key was seen before.
pub(super) fn unique<K: Ord>(value: &Field<'_>, seen: &mut BTreeSet<K>, key: K) {
    if !seen.insert(key) {
        value.duplicate();
    }
}

/// Refuses a value that is neither a number from zero on nor a percentage. If `whole` is set, the percentage must be at most
/// 100.
pub(super) fn percent(value: &Field<'_>, whole: bool) {
    not_negative(value);
    let Some(given) = value.as_str() else { return };
    let digits = given.strip_suffix('%').filter(|digits| !digits.is_empty());
    match digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
        None => value.invalid(
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
        ),
        Some(digits) if !whole || digits.parse::<u32>().is_ok_and(|percent| percent <= 100) => {}
        Some(_) => value.invalid("must not be greater than 100%"),
    }
}

/// Refuses a port outside of 1 to 65535.
pub(super) fn port(port: &Field<'_>) {
    within(port, 1..=65535, NOT_A_PORT);
}

/// Like [`port`], for a port that is 0 if it is missing.
pub(super) fn required_port(port: &Field<'_>) {
    let number = port.as_i64().unwrap_or(0);
    if !(1..=65535).contains(&number) {
        port.invalid_as(number, NOT_A_PORT);
    }
}

/// Refuses a text that is not a valid port name.
pub(super) fn port_name(port: &Field<'_>) {
    let Some(name) = port.as_str() else { return };
    if name.len() > 15 {
        port.invalid("must be no more than 15 characters");
    }
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        port.invalid("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if name.contains("--") {
        port.invalid("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        port.invalid("must not begin or end with a hyphen");
    }
    if !name.chars().any(|c| c.is_ascii_lowercase()) {
        port.invalid("must contain at least one letter (a-z)");
    }
}

/// Returns a warning if an object's name is valid for the object, but not as the host name of its pods.
pub(super) fn host_warning(object: &Value, used_in: &str) -> Option<String> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let found = names::problems(names::NameRule::Label, name);
    (!found.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is \
             recommended: [{}]",
            found.join(" ")
        )
    })
}

/// Refuses a text that is not a valid label key.
pub(super) fn qualified(place: &Field<'_>, key: &str) {
    for problem in names::qualified_name_problems(key) {
        place.invalid_as(Value::from(key), problem);
    }
}

/// Validates the name of the application protocol of a port.
pub(super) fn app_protocol(port: &Field<'_>) {
    let protocol = port.at("appProtocol");
    if let Some(name) = protocol.as_str() {
        qualified(&protocol, name);
    }
}

/// Validates a reference to an object of any kind.
pub(super) fn typed_reference(reference: &Field<'_>) {
    let group = reference.at("apiGroup");
    if !group.is_null() {
        group.name(names::NameRule::Subdomain);
    }
    for key in ["kind", "name"] {
        reference.at(key).required_name(names::NameRule::PathSegment);
    }
}

/// Reports a label value that is not valid.
pub(super) fn label_value(value: &Field<'_>) {
    if let Some(problem) = names::label_value_problem(value.as_text()) {
        value.invalid(problem);
    }
}

/// Refuses what is not the name of a storage or device driver.
pub(super) fn driver_name(name: &Field<'_>) {
    const MAX_BYTES: usize = 63;
    name.not_empty("");
    if name.as_text().len() > MAX_BYTES {
        name.too_long(MAX_BYTES);
    }
    for problem in names::problems(names::NameRule::Subdomain, &name.as_text().to_ascii_lowercase()) {
        name.invalid(problem);
    }
}

/// Refuses a text that is not a domain and a path below it.
pub(super) fn domain_prefixed_path(place: &Field<'_>) {
    let Some((domain, path)) =
        place.as_text().split_once('/').filter(|(a, b)| !a.is_empty() && !b.is_empty())
    else {
        if place.as_text().is_empty() {
            place.required("");
        } else {
            place.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")");
        }
        return;
    };
    for problem in names::problems(names::NameRule::Subdomain, domain) {
        place.invalid_as(Value::from(domain), problem);
    }
    if !path.chars().all(|c| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c)) {
        place.invalid_as(
            Value::from(path),
            "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
        );
    }
}

/// Refuses addresses that other machines cannot reach.
pub(super) fn special_address(address: IpAddr, shown: &Field<'_>) {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let link_local_multicast = match address {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    };
    if address.is_unspecified() {
        shown.invalid(format!("may not be unspecified ({address})"));
    } else if address.is_loopback() {
        shown.invalid("may not be in the loopback range (127.0.0.0/8, ::1/128)");
    } else if link_local {
        shown.invalid("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    } else if link_local_multicast {
        shown.invalid("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
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

/// Reports all validation errors of labels.
pub(super) fn labels(labels: &Field<'_>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        qualified(labels, key);
        if let Some(problem) = names::label_value_problem(value.as_str().unwrap_or_default()) {
            labels.invalid_as(value, problem);
        }
    }
}

/// Returns the first alternative that an object has, and refuses the others. A merge of several layers can produce more than one.
pub(super) fn first_of<'a>(object: &Field<'_>, alternatives: &[&'a str], what: &str) -> Option<&'a str> {
    let mut given = alternatives.iter().copied().filter(|alternative| object[*alternative].is_object());
    let first = given.next();
    for other in given {
        object.at(other).forbidden(format!("may not specify more than 1 {what}"));
    }
    first
}

/// Reports all validation errors of a label selector object.
pub(super) fn selector(selector: &Field<'_>) {
    labels(&selector.at("matchLabels"));
    for expression in selector.items("matchExpressions") {
        requirement(&expression);
        expression.items("values").for_each(|value| label_value(&value));
    }
}

/// Reports the validation errors in operator and key of a requirement, and in the number of its values.
pub(super) fn requirement(expression: &Field<'_>) {
    let (operator, values) = (expression.text_at("operator"), expression.at("values"));
    let is_empty = expression.list("values").is_empty();
    match operator.as_text() {
        "In" | "NotIn" if is_empty => values.required("must be specified when `operator` is 'In' or 'NotIn'"),
        "Exists" | "DoesNotExist" if !is_empty => {
            values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => operator.invalid("not a valid selector operator"),
    }
    requirement_key(expression);
}

/// Refuses a requirement whose key is not a valid label key.
pub(super) fn requirement_key(expression: &Field<'_>) {
    let key = expression.text_at("key");
    qualified(&key, key.as_text());
}

/// Reports all validation errors of annotations.
pub(super) fn annotations(annotations: &Field<'_>) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        size += key.len() + value.as_str().map_or(0, str::len);
        for problem in names::qualified_name_problems(&key.to_ascii_lowercase()) {
            annotations.invalid_as(Value::from(key.as_str()), problem);
        }
    }
    if size > MAX_ANNOTATIONS_BYTES {
        annotations.too_long(MAX_ANNOTATIONS_BYTES);
    }
}
