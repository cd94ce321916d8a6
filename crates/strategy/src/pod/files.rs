//! Validation of the files that volumes make: their paths, modes and contents.

use serde_json::Value;

use super::selectors;
use crate::{
    Cause,
    checks::{items, text},
};

/// Validates the entries of a Secret or ConfigMap that become files.
pub(super) fn keys(source: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, item) in items(source, "items").iter().enumerate() {
        let own = format!("{path}.items[{index}]");
        for field in ["key", "path"] {
            if text(item, field).is_empty() {
                causes.push(Cause::required(format!("{own}.{field}"), ""));
            }
        }
        not_reserved(&item["path"], &format!("{own}.path"), causes);
        mode(&item["mode"], &format!("{own}.mode"), causes);
    }
}

/// Validates the files with facts about the pod. kube-apiserver omits their index.
pub(super) fn downward(source: &Value, path: &str, causes: &mut Vec<Cause>) {
    for item in items(source, "items") {
        if text(item, "path").is_empty() {
            causes.push(Cause::required(format!("{path}.path"), ""));
        }
        not_reserved(&item["path"], &format!("{path}.path"), causes);
        let (field, resource) = (&item["fieldRef"], &item["resourceFieldRef"]);
        if field.is_object() {
            selectors::field(field, &format!("{path}.fieldRef"), &selectors::VOLUME_FIELDS, causes);
            if resource.is_object() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                causes.push(Cause::invalid(path, &Value::from("resource"), detail));
            }
        } else if resource.is_object() {
            selectors::resource(resource, &format!("{path}.resourceFieldRef"), true, causes);
        } else {
            causes.push(Cause::required(path, "one of fieldRef and resourceFieldRef is required"));
        }
        mode(&item["mode"], &format!("{path}.mode"), causes);
    }
}

/// Refuses an absolute path, and one that leads up.
pub(super) fn below(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.as_str().is_some_and(|text| text.starts_with('/')) {
        causes.push(Cause::invalid(path, value, "must be a relative path"));
    }
    no_way_up(value, path, causes);
}

/// Like [`below`], and refuses a name with two dots at its beginning: the kubelet's own files have such names.
pub(super) fn not_reserved(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    below(value, path, causes);
    if value.as_str().is_some_and(|text| text.starts_with("..") && !text.starts_with("../")) {
        causes.push(Cause::invalid(path, value, "must not start with '..'"));
    }
}

/// Refuses a path that contains `..`.
pub(super) fn no_way_up(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.as_str().is_some_and(|text| text.split('/').any(|part| part == "..")) {
        causes.push(Cause::invalid(path, value, "must not contain '..'"));
    }
}

/// Refuses what is not the mode of a file.
pub(super) fn mode(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        causes.push(Cause::invalid(path, value, detail));
    }
}
