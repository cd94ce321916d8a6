//! Validation of the volumes of pods.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    files::{self, forbid_parent_path, mode, not_reserved},
    mounts::Volumes,
};
use crate::{
    Field,
    checks::{driver_name, first_of},
    names::NameRule,
    quantity::Quantity,
    storage,
};

const HOST_PATHS: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// The volume sources, in the order in which kube-apiserver checks them. It ignores all but the first.
const SOURCES: [&str; 29] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "azureFile",
    "configMap",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "projected",
    "storageos",
    "csi",
    "ephemeral",
    "image",
];

/// Seconds that a token of a service account must be valid for.
const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

/// Validates the volumes of a pod's spec. Returns the valid ones: to the mounts, others do not exist.
pub(super) fn validate<'v>(spec: &Field<'v>) -> Volumes<'v> {
    let mut valid = Volumes::new();
    for volume in spec.items("volumes") {
        let (before, name) = (spec.count(), volume.at("name"));
        if let Some(kind) = first_of(&volume, &SOURCES, "volume type") {
            source(kind, &volume.at(kind));
        }
        name.required_name(NameRule::Label);
        if valid.contains_key(name.as_text()) {
            name.duplicate();
        }
        if spec.count() == before {
            valid.insert(name.as_text(), volume.value);
        }
    }
    valid
}

/// Validates the source of a volume.
pub(crate) fn source(kind: &str, source: &Field<'_>) {
    let required = match kind {
        "configMap" => "name",
        "secret" => "secretName",
        "gitRepo" => "repository",
        "persistentVolumeClaim" => "claimName",
        "hostPath" => "path",
        _ => "",
    };
    if !required.is_empty() {
        source.at(required).not_empty("");
    }
    if matches!(kind, "configMap" | "secret" | "downwardAPI" | "projected") {
        mode(&source.at("defaultMode"));
    }
    match kind {
        "configMap" | "secret" => files::keys(source),
        "downwardAPI" => files::downward(source),
        "projected" => projected(source),
        "ephemeral" => {
            let template = source.at("volumeClaimTemplate");
            if template.is_object() {
                storage::claim_spec(&template.at("spec"));
            } else {
                template.required("");
            }
        }
        "hostPath" => {
            forbid_parent_path(&source.at("path"));
            source.at("type").one_of(&HOST_PATHS);
        }
        "emptyDir" => {
            let size = source["sizeLimit"].as_str().and_then(Quantity::parse);
            if size.is_some_and(|size| size.milli() < 0) {
                source.at("sizeLimit").forbidden("SizeLimit field must be a valid resource quantity");
            }
        }
        "nfs" => {
            source.at("server").not_empty("");
            let directory = source.text_at("path");
            directory.not_empty("");
            if !directory.as_text().starts_with('/') {
                directory.invalid("must be an absolute path");
            }
        }
        "csi" => {
            driver_name(&source.text_at("driver"));
            let secret = source.at("nodePublishSecretRef.name");
            if source["nodePublishSecretRef"].is_object() {
                secret.not_empty("");
            }
            // kube-apiserver omits a part of the path.
            secret.named(format!("{}.name", source.path)).optional_name(NameRule::Subdomain);
        }
        "gitRepo" => files::below(&source.at("directory")),
        _ => {}
    }
}

fn projected(projection: &Field<'_>) {
    const KINDS: [&str; 4] = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];
    let mut paths = BTreeSet::new();
    for parts in projection.items("sources") {
        let given = KINDS.into_iter().filter(|kind| parts[*kind].is_object());
        for kind in given.clone() {
            let source = parts.at(kind);
            match kind {
                "downwardAPI" => files::downward(&source),
                "serviceAccountToken" => token(&source, projection),
                _ => {
                    source.at("name").not_empty("");
                    files::keys(&source);
                }
            }
            for file in source.list("items") {
                let file = file["path"].as_str().unwrap_or_default();
                if !file.is_empty() && !paths.insert(file) {
                    let shown = if source.text("name").is_empty() { file } else { source.text("name") };
                    projection.invalid_as(Value::from(shown), "conflicting duplicate paths");
                }
            }
        }
        if given.count() > 1 {
            parts.forbidden("may not specify more than 1 volume type per source");
        }
    }
}

/// Validates a token of a service account. kube-apiserver names the volume in errors about its path.
fn token(token: &Field<'_>, volume: &Field<'_>) {
    let seconds = token.at("expirationSeconds");
    match seconds.as_i64() {
        Some(..MIN_TOKEN_SECONDS) => seconds.invalid("may not specify a duration less than 10 minutes"),
        Some(given) if given > MAX_TOKEN_SECONDS => {
            seconds.invalid("may not specify a duration larger than 2^32 seconds");
        }
        _ => {}
    }
    let path = volume.with(token.value).at("path");
    path.not_empty("");
    not_reserved(&path);
}
