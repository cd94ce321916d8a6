//! Validation of the places where a container sees its volumes.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use super::files;
use crate::{
    Cause,
    checks::{items, one_of, text},
};

/// The valid volumes of a pod, by name.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

/// The volumes and places of a list. The two lists of a container may be long, and each entry is compared with all of the other.
struct Used<'a> {
    volumes: HashSet<&'a str>,
    places: HashSet<&'a str>,
}

// === impl Used ===

impl<'a> Used<'a> {
    fn by(list: &'a [Value], field: &str) -> Self {
        Self {
            volumes: list.iter().map(|user| text(user, "name")).collect(),
            places: list.iter().map(|user| text(user, field)).collect(),
        }
    }
}

/// Validates the mounts and block devices of a container.
pub(super) fn validate(container: &Value, volumes: &Volumes<'_>, path: &str, causes: &mut Vec<Cause>) {
    let (mounts, devices) = (items(container, "volumeMounts"), items(container, "volumeDevices"));
    let [used_by_mounts, used_by_devices] = [Used::by(mounts, "mountPath"), Used::by(devices, "devicePath")];
    let mut seen = BTreeSet::new();
    for (index, mount) in mounts.iter().enumerate() {
        let own = format!("{path}.volumeMounts[{index}]");
        named(mount, volumes, &own, causes);
        place(mount, "mountPath", &own, &mut seen, causes);
        overlap(mount, "mountPath", &used_by_devices, "volumeDevices", &own, causes);
        // kube-apiserver omits the index here.
        options(mount, container, &format!("{path}.volumeMounts"), causes);
        if !text(mount, "subPath").is_empty() && !text(mount, "subPathExpr").is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            causes.push(Cause::invalid(format!("{own}.subPathExpr"), &mount["subPathExpr"], detail));
        }
    }
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in devices.iter().enumerate() {
        let own = format!("{path}.volumeDevices[{index}]");
        named(device, volumes, &own, causes);
        let name = text(device, "name");
        let is_claim = |volume: &&Value| {
            ["persistentVolumeClaim", "ephemeral"].iter().any(|kind| volume[*kind].is_object())
        };
        let mut refuse = |detail| causes.push(Cause::invalid(format!("{own}.name"), &device["name"], detail));
        if volumes.get(name).is_some_and(|volume| !is_claim(volume)) {
            refuse("can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode");
        }
        if !name.is_empty() && !names.insert(name) {
            refuse("must be unique");
        }
        place(device, "devicePath", &own, &mut paths, causes);
        overlap(device, "devicePath", &used_by_mounts, "volumeMounts", &own, causes);
    }
}

/// Refuses a name that no valid volume has.
fn named(user: &Value, volumes: &Volumes<'_>, path: &str, causes: &mut Vec<Cause>) {
    let (name, own) = (text(user, "name"), format!("{path}.name"));
    if name.is_empty() {
        causes.push(Cause::required(own.as_str(), ""));
    }
    if !volumes.contains_key(name) {
        causes.push(Cause::not_found(own, &Value::from(name)));
    }
}

/// Refuses a place that is empty or that another one has.
fn place<'a>(
    user: &'a Value,
    field: &str,
    path: &str,
    seen: &mut BTreeSet<&'a str>,
    causes: &mut Vec<Cause>,
) {
    let own = format!("{path}.{field}");
    if text(user, field).is_empty() {
        causes.push(Cause::required(own.as_str(), ""));
    }
    if !seen.insert(text(user, field)) {
        causes.push(Cause::invalid(own, &Value::from(text(user, field)), "must be unique"));
    }
}

/// Refuses a volume or a place that the other list has.
fn overlap(user: &Value, field: &str, others: &Used<'_>, list: &str, path: &str, causes: &mut Vec<Cause>) {
    for (field, taken, kind) in [("name", &others.volumes, ""), (field, &others.places, "as a path ")] {
        if taken.contains(text(user, field)) {
            let detail = format!("must not already exist {kind}in {list}");
            causes.push(Cause::invalid(format!("{path}.{field}"), &Value::from(text(user, field)), detail));
        }
    }
}

fn options(mount: &Value, container: &Value, path: &str, causes: &mut Vec<Cause>) {
    for field in ["subPath", "subPathExpr"] {
        files::below(&mount[field], &format!("{path}.{field}"), causes);
    }
    let (propagation, own) = (&mount["mountPropagation"], format!("{path}.mountPropagation"));
    if propagation == "Bidirectional" && container["securityContext"]["privileged"] != true {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        causes.push(Cause::forbidden(own.as_str(), detail));
    }
    one_of(propagation, &own, &["Bidirectional", "HostToContainer", "None"], causes);
    let (recursive, own) = (&mount["recursiveReadOnly"], format!("{path}.recursiveReadOnly"));
    one_of(recursive, &own, &["Disabled", "Enabled", "IfPossible"], causes);
    if recursive == "Enabled" || recursive == "IfPossible" {
        if mount["readOnly"] != true {
            causes.push(Cause::forbidden(own.as_str(), "may only be specified when readOnly is true"));
        }
        if propagation.as_str().is_some_and(|propagation| propagation != "None") {
            let detail = "may only be specified when mountPropagation is None or not specified";
            causes.push(Cause::forbidden(own, detail));
        }
    }
}
