//! Validation of the places where a container sees its volumes.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use super::files;
use crate::Field;

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
        let texts = |field: &str| list.iter().map(|user| user[field].as_str().unwrap_or_default()).collect();
        Self { volumes: texts("name"), places: texts(field) }
    }
}

/// Validates the mounts and block devices of a container.
pub(super) fn validate(container: &Field<'_>, volumes: &Volumes<'_>) {
    let used_by_mounts = Used::by(container.list("volumeMounts"), "mountPath");
    let used_by_devices = Used::by(container.list("volumeDevices"), "devicePath");
    let mut seen = BTreeSet::new();
    for mount in container.items("volumeMounts") {
        named(&mount, volumes);
        place(&mount.text_at("mountPath"), &mut seen);
        overlap(&mount, "mountPath", &used_by_devices, "volumeDevices");
        // kube-apiserver omits the index here.
        options(&container.at("volumeMounts").with(mount.value), container);
        if !mount.text("subPath").is_empty() && !mount.text("subPathExpr").is_empty() {
            mount.at("subPathExpr").invalid("subPathExpr and subPath are mutually exclusive");
        }
    }
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for device in container.items("volumeDevices") {
        named(&device, volumes);
        let name = device.at("name");
        let is_claim = |volume: &&Value| {
            ["persistentVolumeClaim", "ephemeral"].iter().any(|kind| volume[*kind].is_object())
        };
        if volumes.get(name.as_text()).is_some_and(|volume| !is_claim(volume)) {
            name.invalid(
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
            );
        }
        if !name.as_text().is_empty() && !names.insert(name.as_text()) {
            name.invalid("must be unique");
        }
        place(&device.text_at("devicePath"), &mut paths);
        overlap(&device, "devicePath", &used_by_mounts, "volumeMounts");
    }
}

/// Refuses a name that no valid volume has.
fn named(user: &Field<'_>, volumes: &Volumes<'_>) {
    let name = user.text_at("name");
    name.not_empty("");
    if !volumes.contains_key(name.as_text()) {
        name.not_found();
    }
}

/// Refuses a place that is empty or that another one has.
fn place<'v>(place: &Field<'v>, seen: &mut BTreeSet<&'v str>) {
    place.not_empty("");
    if !seen.insert(place.as_text()) {
        place.invalid("must be unique");
    }
}

/// Refuses a volume or a place that the other list has.
fn overlap(user: &Field<'_>, field: &str, others: &Used<'_>, list: &str) {
    for (field, taken, kind) in [("name", &others.volumes, ""), (field, &others.places, "as a path ")] {
        if taken.contains(user.text(field)) {
            user.text_at(field).invalid(format!("must not already exist {kind}in {list}"));
        }
    }
}

fn options(mount: &Field<'_>, container: &Value) {
    files::below(&mount.at("subPath"));
    files::below(&mount.at("subPathExpr"));
    let propagation = mount.at("mountPropagation");
    if propagation.as_text() == "Bidirectional" && container["securityContext"]["privileged"] != true {
        propagation.forbidden("Bidirectional mount propagation is available only to privileged containers");
    }
    propagation.one_of(&["Bidirectional", "HostToContainer", "None"]);
    let recursive = mount.at("recursiveReadOnly");
    recursive.one_of(&["Disabled", "Enabled", "IfPossible"]);
    if matches!(recursive.as_text(), "Enabled" | "IfPossible") {
        if mount["readOnly"] != true {
            recursive.forbidden("may only be specified when readOnly is true");
        }
        if propagation.as_str().is_some_and(|propagation| propagation != "None") {
            recursive.forbidden("may only be specified when mountPropagation is None or not specified");
        }
    }
}
