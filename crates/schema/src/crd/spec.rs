//! Validates a definition's spec, except its schemas.

use std::collections::{HashMap, HashSet};

use longboat_key::names::{self, NameRule};
use serde_json::Value;

use super::schema;
use crate::Field;

const APPROVAL: &str = "api-approved.kubernetes.io";

/// Reports all errors of a CustomResourceDefinition. `old` is the stored one on updates.
pub fn validate_crd(crd: &Field<'_>, old: Option<&Value>) {
    let spec = crd.at("spec");
    match old {
        None => {
            let name = crd.text_at("metadata.name");
            if name.as_text() != format!("{}.{}", spec.text("names.plural"), spec.text("group")) {
                name.invalid("must be spec.names.plural+\".\"+spec.group");
            }
            approval(crd);
            group(&spec.at("group"));
        }
        Some(old) => immutable(crd, old),
    }
    let changed = |field: &str| old.is_none_or(|old| old["spec"][field] != spec[field]);
    known_or_missing(&spec.at("scope"), &["Cluster", "Namespaced"]);
    versions(crd);
    if changed("names") {
        names_of(&spec.at("names"));
    }
    conversion(&spec.at("conversion"));
    let preserve = spec.at("preserveUnknownFields");
    if *preserve == true && old.is_none_or(|old| old["spec"]["preserveUnknownFields"] != true) {
        preserve.invalid(
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        );
    }
    // Unchanged schemas were validated when they were written. A later, stricter server must still accept them.
    if changed("versions") {
        per_version(&spec, old.map_or(&[], |old| list(&old["spec"]["versions"])));
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Refuses a text that is missing, or not one of the known values.
fn known_or_missing(field: &Field<'_>, known: &[&str]) {
    field.not_empty("");
    if !field.as_text().is_empty() {
        field.one_of(known);
    }
}

fn immutable(crd: &Field<'_>, old: &Value) {
    let established = list(&old["status"]["conditions"])
        .iter()
        .any(|c| c["type"] == "Established" && c["status"] == "True");
    let mut fields = vec!["spec.group", "spec.names.plural"];
    if established {
        fields.extend(["spec.scope", "spec.names.kind"]);
    }
    for field in fields.into_iter().map(|field| crd.at(field)) {
        if *field.value != *crate::field::find(old, &field.path) {
            field.invalid("field is immutable");
        }
    }
}

fn approval(crd: &Field<'_>) {
    let group = crd.text("spec.group");
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')));
    if !protected {
        return;
    }
    let approval = &crd["metadata"]["annotations"][APPROVAL];
    let field = crd.with(approval).named(format!("metadata.annotations[{APPROVAL}]"));
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match field.as_text() {
        "" => {
            field.required(format!("protected groups must have approval annotation \"{APPROVAL}\", {see}"));
        }
        value if value.starts_with("unapproved") || url::Url::parse(value).is_ok() => {}
        _ => field.invalid(format!(
            "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a reason starting with \"unapproved\", {see}"
        )),
    }
}

/// Returns all violations of a rule for names as one text.
fn problem(rule: NameRule, name: &str) -> Option<String> {
    let problems = names::problems(rule, name);
    (!problems.is_empty()).then(|| problems.join(","))
}

fn group(group: &Field<'_>) {
    let name = group.as_text();
    if name.is_empty() {
        group.required("");
    } else if let Some(why) = problem(NameRule::Subdomain, name) {
        group.invalid(why);
    } else if !name.contains('.') {
        group.invalid("should be a domain with at least one dot");
    }
}

fn versions(crd: &Field<'_>) {
    let versions = crd.list("spec.versions");
    let mut seen: HashSet<&str> = HashSet::new();
    let mut unique = true;
    for version in crd.items("spec.versions") {
        let (name, warning) = (version.text_at("name"), version.at("deprecationWarning"));
        unique &= seen.insert(name.as_text());
        if let Some(why) = problem(NameRule::Label1035, name.as_text()) {
            name.invalid(why);
        }
        if version["deprecated"] != true && warning.is_string() {
            warning.invalid("can only be set for deprecated versions");
        }
    }
    // The reference prints its internal form, in which fields that all versions share are moved out of the versions.
    let wrong = |detail: &str| {
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
        crd.at("spec.versions").invalid_as(format!("[{}]", shown.join(",")), detail);
    };
    if !unique {
        wrong("must contain unique version names");
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        wrong("must have exactly one version marked as storage version");
    }
    stored(crd, versions);
}

fn stored(crd: &Field<'_>, versions: &[Value]) {
    let field = crd.at("status.storedVersions");
    if crd.list("status.storedVersions").is_empty() {
        field.with(&Value::Null).invalid("must have at least one stored version");
        return;
    }
    let names: HashSet<&str> = versions.iter().map(|version| text(&version["name"])).collect();
    // Each stored version stands for one of the spec, also of several with the same name.
    let mut unmatched: HashMap<&str, usize> = HashMap::new();
    for stored in crd.items("status.storedVersions") {
        let name = stored.as_text();
        *unmatched.entry(name).or_default() += 1;
        if !names.contains(name) {
            stored.invalid(format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            ));
        }
    }
    let storage = versions.iter().filter(|version| version["storage"] == true);
    for name in storage.map(|version| text(&version["name"])) {
        match unmatched.get_mut(name) {
            Some(left) if *left > 0 => *left -= 1,
            _ => field.invalid(format!("must have the storage version {name}")),
        }
    }
}

fn names_of(spec: &Field<'_>) {
    for (field, mixed_case) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        let name = spec.at(field);
        let checked = if mixed_case { name.as_text().to_lowercase() } else { name.as_text().to_owned() };
        name.not_empty("");
        if let Some(why) = problem(NameRule::Label1035, &checked).filter(|_| !checked.is_empty()) {
            let rule = if mixed_case { "may have mixed case, but should otherwise match: " } else { "" };
            name.invalid(format!("{rule}{why}"));
        }
    }
    for name in ["shortNames", "categories"].iter().flat_map(|field| spec.items(field)) {
        if let Some(why) = problem(NameRule::Label1035, name.as_text()) {
            name.invalid(why);
        }
    }
    if !spec.text("kind").is_empty() && spec["kind"] == spec["listKind"] {
        spec.at("listKind").invalid("kind and listKind may not be the same");
    }
}

fn conversion(conversion: &Field<'_>) {
    let client = conversion.at("webhook.clientConfig").named("spec.conversion.webhookClientConfig");
    match conversion["strategy"].as_str() {
        None | Some("None") => {
            if conversion["webhook"].is_object() {
                client.forbidden("should not be set when strategy is not set to Webhook");
            }
        }
        Some("Webhook") => {
            if client.is_object() {
                crate::check_client_config(&client);
            } else {
                client.required("required when strategy is set to Webhook");
            }
            let versions = conversion
                .at("webhook.conversionReviewVersions")
                .named("spec.conversion.conversionReviewVersions");
            let review_versions = list(&versions);
            if review_versions.is_empty() {
                versions.required("");
            } else if !review_versions.iter().any(|v| v == "v1" || v == "v1beta1") {
                versions.invalid("must include at least one of v1, v1beta1");
            }
        }
        Some(_) => conversion.at("strategy").unsupported(&["None", "Webhook"]),
    }
}

/// Checks the fields of each version. A value that all versions share is reported once, directly below spec, where the
/// reference's internal form has it.
fn per_version(spec: &Field<'_>, old: &[Value]) {
    let versions = spec.list("versions");
    let shared = |key: &str| versions.iter().all(|version| version.get(key) == versions[0].get(key));
    for (index, version) in spec.items("versions").enumerate() {
        let at = |key: &str, top: &str| {
            let field = version.at(key);
            if !shared(key) {
                return Some(field);
            }
            (index == 0).then(|| field.named(format!("spec.{top}")))
        };
        let before = old.iter().find(|old| old["name"] == version["name"]);
        let openapi = version.at("schema.openAPIV3Schema");
        if !openapi.is_object() {
            openapi.required("");
            continue;
        }
        if let Some(schema) = at("schema", "validation")
            && before.is_none_or(|before| before["schema"] != version["schema"])
        {
            schema::check(&schema.at("openAPIV3Schema"));
        }
        if let Some(columns) = at("additionalPrinterColumns", "additionalPrinterColumns") {
            columns.each().for_each(|column| check_column(&column));
        }
        if let Some(subresources) = at("subresources", "subresources") {
            scale(&subresources.at("scale"));
        }
        if let Some(fields) = at("selectableFields", "selectableFields") {
            fields.each().for_each(|field| selectable(&field.at("jsonPath"), &openapi));
        }
    }
}

fn check_column(column: &Field<'_>) {
    column.at("name").not_empty("");
    let kind = column.at("type");
    match kind.as_text() {
        "" => kind.required("must be one of boolean,date,integer,number,string"),
        "boolean" | "date" | "integer" | "number" | "string" => {}
        _ => kind.invalid("must be one of boolean,date,integer,number,string"),
    }
    let path = column.at("jsonPath").named(format!("{}.JSONPath", column.path));
    path.not_empty("");
    if !path.as_text().is_empty() && !path.as_text().starts_with('.') {
        path.invalid("must be a simple json path starting with .");
    }
}

fn scale(scale: &Field<'_>) {
    if !scale.is_object() {
        return;
    }
    for (field, below) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let path = scale.at(field);
        path.not_empty("");
        if !path.as_text().is_empty() && !path.as_text().starts_with(&format!("{below}.")) {
            path.invalid(format!("should be a json path under {below}"));
        }
    }
    let selector = scale.at("labelSelectorPath");
    let path = selector.as_text();
    if !path.is_empty() && !path.starts_with(".spec.") && !path.starts_with(".status.") {
        selector.invalid("should be a json path under either .spec or .status");
    }
}

fn selectable(path: &Field<'_>, openapi: &Value) {
    if path.as_text().is_empty() {
        path.required("");
        return;
    }
    let names = path.as_text().trim_start_matches('.').split('.');
    let schema = names.fold(openapi, |schema, name| &schema["properties"][name]);
    if schema.is_null() {
        path.invalid("is an invalid path: does not refer to a valid field");
    } else if !["string", "integer", "boolean"].iter().any(|kind| schema["type"] == *kind) {
        path.invalid("is an invalid path: must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.");
    }
}
