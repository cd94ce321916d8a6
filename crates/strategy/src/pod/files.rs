//! Validation of the files that volumes make: their paths, modes and contents.

use super::selectors;
use crate::{Field, checks::within};

/// Validates the entries of a Secret or ConfigMap that become files.
pub(super) fn keys(source: &Field<'_>) {
    for item in source.items("items") {
        item.at("key").not_empty("");
        item.at("path").not_empty("");
        not_reserved(&item.at("path"));
        mode(&item.at("mode"));
    }
}

/// Validates the files with facts about the pod. kube-apiserver omits their index.
pub(super) fn downward(source: &Field<'_>) {
    for item in source.list("items").iter().map(|item| source.with(item)) {
        item.at("path").not_empty("");
        not_reserved(&item.at("path"));
        let (field, resource) = (item.at("fieldRef"), item.at("resourceFieldRef"));
        if field.is_object() {
            selectors::field(&field, &selectors::VOLUME_FIELDS);
            if resource.is_object() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                source.invalid_as("\"resource\"", detail);
            }
        } else if resource.is_object() {
            selectors::resource(&resource, true);
        } else {
            source.required("one of fieldRef and resourceFieldRef is required");
        }
        mode(&item.at("mode"));
    }
}

/// Refuses an absolute path, and one that leads up.
pub(super) fn below(path: &Field<'_>) {
    if path.as_text().starts_with('/') {
        path.invalid("must be a relative path");
    }
    forbid_parent_path(path);
}

/// Like [`below`], and refuses a name with two dots at its beginning: the kubelet's own files have such names.
pub(super) fn not_reserved(path: &Field<'_>) {
    below(path);
    if path.as_text().starts_with("..") && !path.as_text().starts_with("../") {
        path.invalid("must not start with '..'");
    }
}

/// Refuses a path that contains `..`.
pub(crate) fn forbid_parent_path(path: &Field<'_>) {
    if path.as_text().split('/').any(|part| part == "..") {
        path.invalid("must not contain '..'");
    }
}

/// Refuses what is not the mode of a file.
pub(super) fn mode(mode: &Field<'_>) {
    within(mode, 0..=0o777, "must be a number between 0 and 0777 (octal), both inclusive");
}
