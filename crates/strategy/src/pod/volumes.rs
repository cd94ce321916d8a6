//! Validation of the volumes of pods.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    Cause,
    checks::{items, name, one_of, text},
    names::{self, NameRule},
    quantity::Quantity,
};

const HOST_PATHS: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Validates the source of a volume.
pub(super) fn validate(volume: &Value, path: &str, causes: &mut Vec<Cause>) {
    let at = |kind: &str| (volume[kind].is_object()).then(|| format!("{path}.{kind}"));
    for (kind, field) in [
        ("configMap", "name"),
        ("secret", "secretName"),
        ("persistentVolumeClaim", "claimName"),
        ("hostPath", "path"),
    ] {
        if let Some(own) = at(kind)
            && text(&volume[kind], field).is_empty()
        {
            causes.push(Cause::required(format!("{own}.{field}"), ""));
        }
    }
    for kind in ["configMap", "secret"] {
        if let Some(own) = at(kind) {
            mode(&volume[kind]["defaultMode"], &format!("{own}.defaultMode"), causes);
            keys(&volume[kind], &own, causes);
        }
    }
    if let Some(own) = at("hostPath") {
        let source = &volume["hostPath"];
        no_way_up(&source["path"], &format!("{own}.path"), causes);
        one_of(&source["type"], &format!("{own}.type"), &HOST_PATHS, causes);
    }
    if let Some(own) = at("emptyDir")
        && volume["emptyDir"]["sizeLimit"]
            .as_str()
            .and_then(Quantity::parse)
            .is_some_and(|size| size.milli() < 0)
    {
        let detail = "SizeLimit field must be a valid resource quantity";
        causes.push(Cause::forbidden(format!("{own}.sizeLimit"), detail));
    }
    if let Some(own) = at("nfs") {
        let source = &volume["nfs"];
        if text(source, "server").is_empty() {
            causes.push(Cause::required(format!("{own}.server"), ""));
        }
        let directory = text(source, "path");
        if directory.is_empty() {
            causes.push(Cause::required(format!("{own}.path"), ""));
        } else if !directory.starts_with('/') {
            causes.push(Cause::invalid(format!("{own}.path"), &source["path"], "must be an absolute path"));
        }
    }
    if let Some(own) = at("csi") {
        if text(&volume["csi"], "driver").is_empty() {
            causes.push(Cause::required(format!("{own}.driver"), ""));
        }
        name(
            NameRule::Subdomain,
            &Value::from(text(&volume["csi"], "driver").to_lowercase()),
            &format!("{own}.driver"),
            causes,
        );
    }
    if let Some(own) = at("downwardAPI") {
        for item in items(&volume["downwardAPI"], "items") {
            if text(item, "path").is_empty() {
                causes.push(Cause::required(format!("{own}.path"), ""));
            }
        }
    }
}

fn keys(source: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, item) in items(source, "items").iter().enumerate() {
        let own = format!("{path}.items[{index}]");
        for field in ["key", "path"] {
            if text(item, field).is_empty() {
                causes.push(Cause::required(format!("{own}.{field}"), ""));
            }
        }
        let target = text(item, "path");
        if target.starts_with('/') {
            causes.push(Cause::invalid(format!("{own}.path"), &item["path"], "must be a relative path"));
        }
        no_way_up(&item["path"], &format!("{own}.path"), causes);
        mode(&item["mode"], &format!("{own}.mode"), causes);
    }
}

fn mode(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        causes.push(Cause::invalid(path, value, detail));
    }
}

/// Refuses a path that contains `..`.
pub(super) fn no_way_up(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.as_str().is_some_and(|text| text.split('/').any(|part| part == "..")) {
        causes.push(Cause::invalid(path, value, "must not contain '..'"));
    }
}

/// Validates the volume mounts of a container. The caller has checked that each mount names a volume.
pub(super) fn validate_mounts(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (index, mount) in items(container, "volumeMounts").iter().enumerate() {
        let own = format!("{path}.volumeMounts[{index}]");
        let place = text(mount, "mountPath");
        if !seen.insert(place) && !place.is_empty() {
            causes.push(Cause::invalid(format!("{own}.mountPath"), &mount["mountPath"], "must be unique"));
        }
        // kube-apiserver omits the index here.
        let within = format!("{path}.volumeMounts");
        if text(mount, "subPath").starts_with('/') {
            causes.push(Cause::invalid(
                format!("{within}.subPath"),
                &mount["subPath"],
                "must be a relative path",
            ));
        }
        no_way_up(&mount["subPath"], &format!("{within}.subPath"), causes);
        if !text(mount, "subPath").is_empty() && !text(mount, "subPathExpr").is_empty() {
            causes.push(Cause::invalid(
                format!("{own}.subPathExpr"),
                &mount["subPathExpr"],
                "subPathExpr and subPath are mutually exclusive",
            ));
        }
        let modes = ["Bidirectional", "HostToContainer", "None"];
        one_of(&mount["mountPropagation"], &format!("{within}.mountPropagation"), &modes, causes);
    }
}

/// Validates the sources of environment variables.
pub(super) fn validate_environment(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    const SOURCES: [&str; 5] =
        ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    const FIELDS: [&str; 9] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    for (index, variable) in items(container, "env").iter().enumerate() {
        let own = format!("{path}.env[{index}]");
        variable_name(&variable["name"], &format!("{own}.name"), causes);
        let source = &variable["valueFrom"];
        if !source.is_object() {
            continue;
        }
        let own = format!("{own}.valueFrom");
        let given: Vec<&str> = SOURCES.into_iter().filter(|key| source[key].is_object()).collect();
        match given.as_slice() {
            [] => causes.push(Cause::invalid(
                own.as_str(),
                &Value::from(""),
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
            )),
            [_] => {}
            _ => causes.push(Cause::invalid(
                own.as_str(),
                &Value::from(""),
                "may not have more than one field specified at a time",
            )),
        }
        for kind in given {
            let (own, reference) = (format!("{own}.{kind}"), &source[kind]);
            match kind {
                "fieldRef" => field(reference, &format!("{own}.fieldPath"), &FIELDS, causes),
                "configMapKeyRef" | "secretKeyRef" => key_reference(reference, &own, causes),
                _ => {}
            }
        }
    }
    for (index, source) in items(container, "envFrom").iter().enumerate() {
        let own = format!("{path}.envFrom[{index}]");
        if !text(source, "prefix").is_empty() {
            variable_name(&source["prefix"], &format!("{own}.prefix"), causes);
        }
        let given: Vec<&str> =
            ["configMapRef", "secretRef"].into_iter().filter(|key| source[key].is_object()).collect();
        match given.as_slice() {
            [kind] => {
                if text(&source[*kind], "name").is_empty() {
                    causes.push(Cause::required(format!("{own}.{kind}.name"), ""));
                } else {
                    name(NameRule::Subdomain, &source[*kind]["name"], &format!("{own}.{kind}.name"), causes);
                }
            }
            [] => causes.push(Cause::invalid(
                format!("{path}.envFrom"),
                &Value::from(""),
                "must specify one of: `configMapRef` or `secretRef`",
            )),
            _ => causes.push(Cause::invalid(
                format!("{path}.envFrom"),
                &Value::from(""),
                "may not have more than one field specified at a time",
            )),
        }
    }
}

fn variable_name(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let name = value.as_str().unwrap_or_default();
    if !name.is_empty() && !name.chars().all(|c| (' '..='~').contains(&c) && c != '=') {
        causes.push(Cause::invalid(
            path,
            value,
            "a valid environment variable name must consist only of printable ASCII characters other than '='",
        ));
    }
}

fn field(reference: &Value, path: &str, known: &[&str], causes: &mut Vec<Cause>) {
    let field = text(reference, "fieldPath");
    if field.is_empty() {
        causes.push(Cause::required(path, ""));
        return;
    }
    let subscript = |map: &str| {
        field.strip_prefix(map).is_some_and(|rest| rest.starts_with("['") && rest.ends_with("']"))
    };
    if subscript("metadata.labels") || subscript("metadata.annotations") || known.contains(&field) {
        return;
    }
    causes.push(if matches!(field, "metadata.labels" | "metadata.annotations") {
        Cause::unsupported(path, &reference["fieldPath"], known)
    } else {
        Cause::invalid(
            path,
            &reference["fieldPath"],
            format!("error converting fieldPath: field label not supported: {field}"),
        )
    });
}

fn key_reference(reference: &Value, path: &str, causes: &mut Vec<Cause>) {
    name(NameRule::Subdomain, &Value::from(text(reference, "name")), &format!("{path}.name"), causes);
    let key = text(reference, "key");
    if key.is_empty() {
        causes.push(Cause::required(format!("{path}.key"), ""));
    } else if let Some(problem) = names::config_key_problem(key) {
        causes.push(Cause::invalid(format!("{path}.key"), &reference["key"], problem));
    }
}
