//! Validates a definition's spec, except its schemas.

use std::collections::{HashMap, HashSet};

use longboat_key::names::{self, NameRule};
use serde_json::{Value, json};

use super::schema;
use crate::Cause;

const APPROVAL: &str = "api-approved.kubernetes.io";

/// Returns all errors of a CustomResourceDefinition. `old` is the stored one on updates.
pub fn validate_crd(crd: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &crd["spec"];
    match old {
        None => {
            let name = text(&crd["metadata"]["name"]);
            let wanted = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
            if name != wanted {
                let detail = "must be spec.names.plural+\".\"+spec.group";
                causes.push(Cause::invalid("metadata.name", &Value::from(name), detail));
            }
            approval(crd, &mut causes);
        }
        Some(old) => immutable(crd, old, &mut causes),
    }
    let changed = |field: &str| old.is_none_or(|old| old["spec"][field] != spec[field]);
    if changed("group") && old.is_none() {
        group(text(&spec["group"]), &mut causes);
    }
    scope(text(&spec["scope"]), &mut causes);
    versions(crd, &mut causes);
    if old.is_none() || changed("names") {
        names_of(&spec["names"], &mut causes);
    }
    conversion(&spec["conversion"], &mut causes);
    if spec["preserveUnknownFields"] == true
        && old.is_none_or(|old| old["spec"]["preserveUnknownFields"] != true)
    {
        causes.push(Cause::invalid(
            "spec.preserveUnknownFields",
            &Value::Bool(true),
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
    // Unchanged schemas were validated when they were written. A later, stricter server must still accept them.
    if changed("versions") {
        per_version(spec, old.map(|old| &old["spec"]), &mut causes);
    }
    causes
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn immutable(crd: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let established = list(&old["status"]["conditions"])
        .iter()
        .any(|c| c["type"] == "Established" && c["status"] == "True");
    let mut fields = vec!["/spec/group", "/spec/names/plural"];
    if established {
        fields.extend(["/spec/scope", "/spec/names/kind"]);
    }
    for pointer in fields {
        let (new, old) = (crd.pointer(pointer), old.pointer(pointer));
        if new != old {
            let field = pointer[1..].replace('/', ".");
            causes.push(Cause::invalid(field, new.unwrap_or(&Value::Null), "field is immutable"));
        }
    }
}

fn approval(crd: &Value, causes: &mut Vec<Cause>) {
    let group = text(&crd["spec"]["group"]);
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')));
    if !protected {
        return;
    }
    let field = format!("metadata.annotations[{APPROVAL}]");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match crd["metadata"]["annotations"][APPROVAL].as_str() {
        None | Some("") => causes.push(Cause::required(
            field,
            format!("protected groups must have approval annotation \"{APPROVAL}\", {see}"),
        )),
        Some(value) if value.starts_with("unapproved") || url::Url::parse(value).is_ok() => {}
        Some(value) => causes.push(Cause::invalid(
            field,
            &Value::from(value),
            format!(
                "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a reason starting with \"unapproved\", {see}"
            ),
        )),
    }
}

/// Returns all violations of a rule for names as one text.
fn problem(rule: NameRule, name: &str) -> Option<String> {
    let problems = names::problems(rule, name);
    (!problems.is_empty()).then(|| problems.join(","))
}

fn group(group: &str, causes: &mut Vec<Cause>) {
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if let Some(why) = problem(NameRule::Subdomain, group) {
        causes.push(Cause::invalid("spec.group", &Value::from(group), why));
    } else if !group.contains('.') {
        causes.push(Cause::invalid(
            "spec.group",
            &Value::from(group),
            "should be a domain with at least one dot",
        ));
    }
}

fn scope(scope: &str, causes: &mut Vec<Cause>) {
    match scope {
        "Cluster" | "Namespaced" => {}
        "" => causes.push(Cause::required("spec.scope", "")),
        other => {
            causes.push(Cause::unsupported("spec.scope", &Value::from(other), &["Cluster", "Namespaced"]));
        }
    }
}

fn versions(crd: &Value, causes: &mut Vec<Cause>) {
    let versions = list(&crd["spec"]["versions"]);
    let mut seen: Vec<&str> = Vec::new();
    let mut unique = true;
    for (index, version) in versions.iter().enumerate() {
        let name = text(&version["name"]);
        unique &= !seen.contains(&name);
        seen.push(name);
        if let Some(why) = problem(NameRule::Label1035, name) {
            causes.push(Cause::invalid(format!("spec.versions[{index}].name"), &Value::from(name), why));
        }
        if version["deprecated"] != true
            && let Some(warning @ Value::String(_)) = version.get("deprecationWarning")
        {
            causes.push(Cause::invalid(
                format!("spec.versions[{index}].deprecationWarning"),
                warning,
                "can only be set for deprecated versions",
            ));
        }
    }
    // The reference prints its internal form, in which fields that all versions share are moved out of the versions.
    let shown = || {
        let shown: Vec<String> = versions
            .iter()
            .map(|version| {
                format!(
                    "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}}",
                    version["name"],
                    version["served"] == true,
                    version["storage"] == true,
                    version["deprecated"] == true,
                    version["deprecationWarning"],
                )
            })
            .collect();
        format!("Invalid value: [{}]: ", shown.join(","))
    };
    let mut wrong = |detail: &str| {
        causes.push(Cause {
            reason: "FieldValueInvalid",
            message: shown() + detail,
            field: "spec.versions".to_owned(),
        });
    };
    if !unique {
        wrong("must contain unique version names");
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        wrong("must have exactly one version marked as storage version");
    }
    stored(crd, versions, causes);
}

fn stored(crd: &Value, versions: &[Value], causes: &mut Vec<Cause>) {
    let field = "status.storedVersions";
    let value = &crd["status"]["storedVersions"];
    let stored = list(value);
    if stored.is_empty() {
        causes.push(Cause::invalid(field, &Value::Null, "must have at least one stored version"));
        return;
    }
    let names: HashSet<&str> = versions.iter().map(|version| text(&version["name"])).collect();
    for (index, name) in stored.iter().enumerate() {
        let name_text = text(name);
        if !names.contains(name_text) {
            causes.push(Cause::invalid(
                format!("{field}[{index}]"),
                name,
                format!(
                    "missing from spec.versions; {name_text} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name_text} and removes {name_text} from status.storedVersions"
                ),
            ));
        }
    }
    // Each stored version stands for one of the spec, also of several with the same name.
    let mut unmatched: HashMap<&str, usize> = HashMap::new();
    for name in stored.iter().map(text) {
        *unmatched.entry(name).or_default() += 1;
    }
    let storage = versions.iter().filter(|version| version["storage"] == true);
    for name in storage.map(|version| text(&version["name"])) {
        match unmatched.get_mut(name) {
            Some(left) if *left > 0 => *left -= 1,
            _ => causes.push(Cause::invalid(field, value, format!("must have the storage version {name}"))),
        }
    }
}

fn names_of(spec: &Value, causes: &mut Vec<Cause>) {
    for field in ["plural", "singular", "kind", "listKind"] {
        let path = format!("spec.names.{field}");
        let name = text(&spec[field]);
        if name.is_empty() {
            causes.push(Cause::required(path, ""));
            continue;
        }
        let kind = field == "kind" || field == "listKind";
        let checked = if kind { name.to_lowercase() } else { name.to_owned() };
        if let Some(why) = problem(NameRule::Label1035, &checked) {
            let why =
                if kind { format!("may have mixed case, but should otherwise match: {why}") } else { why };
            causes.push(Cause::invalid(path, &spec[field], why));
        }
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in list(&spec[field]).iter().enumerate() {
            if let Some(why) = problem(NameRule::Label1035, text(name)) {
                causes.push(Cause::invalid(format!("spec.names.{field}[{index}]"), name, why));
            }
        }
    }
    if !text(&spec["kind"]).is_empty() && spec["kind"] == spec["listKind"] {
        let detail = "kind and listKind may not be the same";
        causes.push(Cause::invalid("spec.names.listKind", &spec["listKind"], detail));
    }
}

fn conversion(conversion: &Value, causes: &mut Vec<Cause>) {
    let field = "spec.conversion";
    match conversion["strategy"].as_str() {
        None | Some("None") => {
            if conversion["webhook"].is_object() {
                let detail = "should not be set when strategy is not set to Webhook";
                causes.push(Cause::forbidden(format!("{field}.webhookClientConfig"), detail));
            }
        }
        Some("Webhook") => {
            let config = &conversion["webhook"]["clientConfig"];
            let config_field = format!("{field}.webhookClientConfig");
            if config.is_object() {
                crate::check_client_config(config, &config_field, causes);
            } else {
                causes.push(Cause::required(config_field, "required when strategy is set to Webhook"));
            }
            let versions = list(&conversion["webhook"]["conversionReviewVersions"]);
            if versions.is_empty() {
                causes.push(Cause::required(format!("{field}.conversionReviewVersions"), ""));
            } else if !versions.iter().any(|v| v == "v1" || v == "v1beta1") {
                causes.push(Cause::invalid(
                    format!("{field}.conversionReviewVersions"),
                    &conversion["webhook"]["conversionReviewVersions"],
                    "must include at least one of v1, v1beta1",
                ));
            }
        }
        Some(other) => causes.push(Cause::unsupported(
            format!("{field}.strategy"),
            &Value::from(other),
            &["None", "Webhook"],
        )),
    }
}

/// Checks the fields of each version. A value that all versions share is reported once, directly below spec, where the
/// reference's internal form has it.
fn per_version(spec: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let versions = list(&spec["versions"]);
    let shared = |key: &str| versions.iter().all(|version| version.get(key) == versions[0].get(key));
    for (index, version) in versions.iter().enumerate() {
        let at = |key: &str, top: &str| {
            if shared(key) {
                (index == 0).then(|| format!("spec.{top}"))
            } else {
                Some(format!("spec.versions[{index}].{key}"))
            }
        };
        let before = old.and_then(|old| list(&old["versions"]).iter().find(|v| v["name"] == version["name"]));
        let openapi = &version["schema"]["openAPIV3Schema"];
        if !openapi.is_object() {
            let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
            causes.push(Cause::required(field, ""));
            continue;
        }
        if let Some(path) = at("schema", "validation")
            && before.is_none_or(|before| before["schema"] != version["schema"])
        {
            schema::check(openapi, &format!("{path}.openAPIV3Schema"), causes);
        }
        if let Some(path) = at("additionalPrinterColumns", "additionalPrinterColumns") {
            columns(&version["additionalPrinterColumns"], &path, causes);
        }
        if let Some(path) = at("subresources", "subresources") {
            scale(&version["subresources"]["scale"], &format!("{path}.scale"), causes);
        }
        if let Some(path) = at("selectableFields", "selectableFields") {
            selectable(&version["selectableFields"], openapi, &path, causes);
        }
    }
}

fn columns(columns: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, column) in list(columns).iter().enumerate() {
        let at = format!("{path}[{index}]");
        if text(&column["name"]).is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        }
        match text(&column["type"]) {
            "" => causes.push(Cause::required(
                format!("{at}.type"),
                "must be one of boolean,date,integer,number,string",
            )),
            "boolean" | "date" | "integer" | "number" | "string" => {}
            _ => causes.push(Cause::invalid(
                format!("{at}.type"),
                &column["type"],
                "must be one of boolean,date,integer,number,string",
            )),
        }
        let json_path = text(&column["jsonPath"]);
        if json_path.is_empty() {
            causes.push(Cause::required(format!("{at}.JSONPath"), ""));
        } else if !json_path.starts_with('.') {
            causes.push(Cause::invalid(
                format!("{at}.JSONPath"),
                &column["jsonPath"],
                "must be a simple json path starting with .",
            ));
        }
    }
}

fn scale(scale: &Value, path: &str, causes: &mut Vec<Cause>) {
    if !scale.is_object() {
        return;
    }
    for (field, below) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let value = text(&scale[field]);
        if value.is_empty() {
            causes.push(Cause::required(format!("{path}.{field}"), ""));
        } else if !value.starts_with(&format!("{below}.")) {
            let detail = format!("should be a json path under {below}");
            causes.push(Cause::invalid(format!("{path}.{field}"), &scale[field], detail));
        }
    }
    let selector = text(&scale["labelSelectorPath"]);
    if !selector.is_empty() && !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
        let detail = "should be a json path under either .spec or .status";
        causes.push(Cause::invalid(format!("{path}.labelSelectorPath"), &scale["labelSelectorPath"], detail));
    }
}

fn selectable(fields: &Value, openapi: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, field) in list(fields).iter().enumerate() {
        let at = format!("{path}[{index}].jsonPath");
        let json_path = text(&field["jsonPath"]);
        if json_path.is_empty() {
            causes.push(Cause::required(at, ""));
            continue;
        }
        let mut schema = openapi;
        for name in json_path.trim_start_matches('.').split('.') {
            schema = &schema["properties"][name];
        }
        let scalar = ["string", "integer", "boolean"].iter().any(|kind| schema["type"] == *kind);
        if *schema == json!(null) {
            let detail = "is an invalid path: does not refer to a valid field";
            causes.push(Cause::invalid(at, &field["jsonPath"], detail));
        } else if !scalar {
            let detail = "is an invalid path: must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            causes.push(Cause::invalid(at, &field["jsonPath"], detail));
        }
    }
}
