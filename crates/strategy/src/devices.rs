//! The kinds of dynamic resource allocation.

use std::{collections::BTreeSet, sync::LazyLock};

use longboat_schema::{StructuralSchema, Variable, check_condition};
use serde_json::Value;

use super::{Strategy, checks, names, names::NameRule};
use crate::Field;

/// The longest expression of a selector, in bytes.
const MAX_SELECTOR_BYTES: usize = 10 * 1024;
/// The longest parameters of a driver, in bytes.
const MAX_PARAMETERS_BYTES: usize = 10 * 1024;
/// The longest name of an attribute, without the domain in front of it, in bytes.
const MAX_ATTRIBUTE_BYTES: usize = 32;
/// The most requests, constraints, configurations or selectors of one owner.
const MAX_ITEMS: usize = 32;
/// The most alternatives of a request.
const MAX_ALTERNATIVES: usize = 8;

const UNKNOWN_REQUEST: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// The schema of the variable `device` in selectors.
static DEVICE: LazyLock<StructuralSchema> = LazyLock::new(|| {
    StructuralSchema::parse(
        r#"{"type": "object", "properties": {
            "driver": {"type": "string"},
            "attributes": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties":
                {"x-kubernetes-preserve-unknown-fields": true}}},
            "capacity": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties":
                {"x-kubernetes-preserve-unknown-fields": true}}}}}"#,
    )
});

/// Kinds of `resource.k8s.io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Devices {
    /// A DeviceClass.
    Class,
    /// A ResourceClaim.
    Claim,
    /// A ResourceClaimTemplate.
    ClaimTemplate,
}

impl Strategy for Devices {
    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        // a stored object was validated before
        if live.is_some_and(|live| live["spec"] == object["spec"]) {
            return;
        }
        let spec = object.at("spec");
        match self {
            Self::Class => {
                selectors(&spec);
                configurations(&spec);
            }
            Self::Claim => claim(&spec),
            Self::ClaimTemplate => {
                template_metadata(&spec.at("metadata"));
                claim(&spec.at("spec"));
            }
        }
        if live.is_some() {
            // an update validates all of this twice, and reports each error twice
            object.repeat();
            if *self != Self::Class {
                spec.invalid(checks::IMMUTABLE);
            }
        }
    }
}

/// Validates the metadata that the claims of a template get.
fn template_metadata(metadata: &Field<'_>) {
    checks::labels(&metadata.at("labels"));
    checks::annotations(&metadata.at("annotations"));
    for (key, field) in metadata.as_object().into_iter().flatten() {
        if !matches!(key.as_str(), "labels" | "annotations") && !field.is_null() {
            metadata.at(key).forbidden("cannot be set");
        }
    }
}

/// Validates the spec of a claim.
fn claim(spec: &Field<'_>) {
    let devices = spec.at("devices");
    let known: BTreeSet<String> = devices.list("requests").iter().flat_map(request_names).collect();
    unique_items(&devices.at("requests"), MAX_ITEMS, "name", request);
    for constraint in devices.items("constraints") {
        unique_items(&constraint.at("requests"), MAX_ITEMS, "", |name| reference(name, &known));
        let attribute = constraint.at("matchAttribute");
        if attribute.is_null() { attribute.required("") } else { full_name(&attribute) }
    }
    devices.at("constraints").at_most(MAX_ITEMS);
    for configuration in devices.items("config") {
        unique_items(&configuration.at("requests"), MAX_ITEMS, "", |name| reference(name, &known));
    }
    configurations(&devices);
}

/// Returns the names by which other parts of the claim refer to a request and to its alternatives.
fn request_names(request: &Value) -> Vec<String> {
    let text = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let name = text(request);
    let alternatives = request["firstAvailable"].as_array().into_iter().flatten();
    let mut all: Vec<String> = alternatives.map(|other| format!("{name}/{}", text(other))).collect();
    all.push(name);
    all
}

/// Validates each item of a list and their number, and refuses items with the same text at `key`, or the same items.
fn unique_items(list: &Field<'_>, most: usize, key: &str, check: impl Fn(&Field<'_>)) {
    let mut seen = BTreeSet::new();
    for item in list.clone().each() {
        check(&item);
        let key = if key.is_empty() { item } else { item.text_at(key) };
        checks::unique(&key, &mut seen, key.as_text());
    }
    list.at_most(most);
}

fn request(request: &Field<'_>) {
    request.text_at("name").name(NameRule::Label);
    let (exactly, alternatives) = (request.at("exactly"), request.at("firstAvailable"));
    match (exactly.is_object(), !request.list("firstAvailable").is_empty()) {
        (false, false) => request.required("exactly one of `exactly` or `firstAvailable` is required"),
        (true, true) => request.invalid_as(
            "null",
            "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
        ),
        _ => {}
    }
    if exactly.is_object() {
        devices_of_class(&exactly);
    }
    unique_items(&alternatives, MAX_ALTERNATIVES, "name", |alternative| {
        alternative.text_at("name").name(NameRule::Label);
        devices_of_class(alternative);
    });
}

/// Validates which devices of a class are requested, and how many.
fn devices_of_class(request: &Field<'_>) {
    request.at("deviceClassName").required_name(NameRule::Subdomain);
    selectors(request);
    let (mode, count) = (request.at("allocationMode"), request.at("count"));
    let number = count.as_i64().unwrap_or(0);
    match mode.as_text() {
        "ExactCount" if number <= 0 => count.invalid_as(number, "must be greater than zero"),
        "All" if number != 0 => count.invalid("must not be specified when allocationMode is 'All'"),
        "ExactCount" | "All" => {}
        _ => mode.unsupported(&["All", "ExactCount"]),
    }
}

/// Refuses a text that is not the name of a request, or of one of its alternatives.
fn reference(name: &Field<'_>, known: &BTreeSet<String>) {
    let text = name.as_text();
    if text.matches('/').count() > 1 {
        return name.invalid(UNKNOWN_REQUEST);
    }
    for part in text.split('/') {
        for problem in names::problems(NameRule::Label, part) {
            name.invalid_as(Value::from(part), problem);
        }
    }
    if !known.contains(text) {
        name.invalid(UNKNOWN_REQUEST);
    }
}

/// Validates the name of an attribute with the domain of its driver.
fn full_name(name: &Field<'_>) {
    let text = name.as_text();
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [""] => name.required("name required"),
        [own] => {
            identifier(name, own);
            name.invalid("must include a domain");
        }
        [domain, own] => {
            if domain.is_empty() {
                name.required("the domain must not be empty");
            } else {
                checks::driver_name(&name.with(&Value::from(*domain)));
            }
            if own.is_empty() { name.required("the name must not be empty") } else { identifier(name, own) }
        }
        _ => {}
    }
}

fn identifier(place: &Field<'_>, text: &str) {
    if text.len() > MAX_ATTRIBUTE_BYTES {
        place.too_long(MAX_ATTRIBUTE_BYTES);
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !text.starts_with(|c: char| is_part(c) && !c.is_ascii_digit()) || !text.chars().all(is_part) {
        place.invalid_as(
            Value::from(text),
            "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')",
        );
    }
}

/// Validates the configurations of a claim or of a class.
fn configurations(owner: &Field<'_>) {
    for configuration in owner.items("config") {
        let opaque = configuration.at("opaque");
        if !opaque.is_object() {
            opaque.required("");
            continue;
        }
        checks::driver_name(&opaque.text_at("driver"));
        let parameters = opaque.at("parameters");
        if parameters.is_null() {
            parameters.required("");
        } else if parameters.to_string().len() > MAX_PARAMETERS_BYTES {
            parameters.too_long(MAX_PARAMETERS_BYTES);
        } else if !parameters.is_object() {
            parameters.invalid_as("\"<value omitted>\"", "must be a valid JSON object");
        }
    }
    owner.at("config").at_most(MAX_ITEMS);
}

/// Validates the selectors of a class or of a request.
fn selectors(owner: &Field<'_>) {
    let variable = Variable { name: "device", type_name: "kubernetes.DRADevice", schema: &DEVICE };
    for selector in owner.items("selectors") {
        let source = selector.text_at("cel.expression");
        if !selector["cel"].is_object() {
            selector.at("cel").required("");
        } else if source.as_text().len() > MAX_SELECTOR_BYTES {
            source.too_long(MAX_SELECTOR_BYTES);
        } else if let Err(why) = check_condition(source.as_text(), &variable) {
            source.invalid(why);
        }
    }
    owner.at("selectors").at_most(MAX_ITEMS);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_names_classes_counts_and_requests() {
        let causes = |devices: Value| {
            let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": devices}});
            let found = crate::causes_of(&claim, "", |claim| Devices::Claim.validate(claim, None));
            found.into_iter().map(|cause| cause.field.replace("spec.devices.", "")).collect::<Vec<_>>()
        };
        let request = |class: &str, count: i64| {
            let exactly = json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count});
            json!([{"name": "r", "exactly": exactly}])
        };
        assert_eq!(causes(json!({"requests": request("gpu", 1)})), [""; 0]);
        assert_eq!(
            causes(json!({"requests": request("", -1)})),
            ["requests[0].exactly.deviceClassName", "requests[0].exactly.count"]
        );
        let constraints = json!([{"requests": ["r", "x"], "matchAttribute": "model"}]);
        assert_eq!(
            causes(json!({"requests": request("gpu", 1), "constraints": constraints})),
            ["constraints[0].requests[1]", "constraints[0].matchAttribute"]
        );
        assert_eq!(causes(json!({"requests": [{"name": "r"}]})), ["requests[0]"]);
    }
}
