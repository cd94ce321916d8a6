//! Validation of the volumes of pods.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    files::{self, mode, no_way_up, not_reserved},
    mounts::Volumes,
};
use crate::{
    Cause,
    checks::{first_of, items, name, one_of, text},
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
pub(super) fn validate<'a>(spec: &'a Value, path: &str, causes: &mut Vec<Cause>) -> Volumes<'a> {
    let mut valid = Volumes::new();
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        let (before, own) = (causes.len(), format!("{path}.volumes[{index}]"));
        if let Some(kind) = first_of(volume, &own, &SOURCES, "volume type", causes) {
            source(kind, &volume[kind], &format!("{own}.{kind}"), causes);
        }
        let own = format!("{own}.name");
        match text(volume, "name") {
            "" => causes.push(Cause::required(own.as_str(), "")),
            _ => name(NameRule::Label, &volume["name"], &own, causes),
        }
        if valid.contains_key(text(volume, "name")) {
            causes.push(Cause::duplicate(own, &volume["name"]));
        }
        if causes.len() == before {
            valid.insert(text(volume, "name"), volume);
        }
    }
    valid
}

fn source(kind: &str, source: &Value, path: &str, causes: &mut Vec<Cause>) {
    let required = match kind {
        "configMap" => "name",
        "secret" => "secretName",
        "persistentVolumeClaim" => "claimName",
        "hostPath" => "path",
        "csi" => "driver",
        _ => "",
    };
    if !required.is_empty() && text(source, required).is_empty() {
        causes.push(Cause::required(format!("{path}.{required}"), ""));
    }
    if matches!(kind, "configMap" | "secret" | "downwardAPI" | "projected") {
        mode(&source["defaultMode"], &format!("{path}.defaultMode"), causes);
    }
    match kind {
        "configMap" | "secret" => files::keys(source, path, causes),
        "downwardAPI" => files::downward(source, path, causes),
        "projected" => projected(source, path, causes),
        "ephemeral" => {
            let (template, own) = (&source["volumeClaimTemplate"], format!("{path}.volumeClaimTemplate"));
            if template.is_object() {
                storage::claim_spec(&template["spec"], &format!("{own}.spec"), causes);
            } else {
                causes.push(Cause::required(own, ""));
            }
        }
        "hostPath" => {
            no_way_up(&source["path"], &format!("{path}.path"), causes);
            one_of(&source["type"], &format!("{path}.type"), &HOST_PATHS, causes);
        }
        "emptyDir" => {
            let size = source["sizeLimit"].as_str().and_then(Quantity::parse);
            if size.is_some_and(|size| size.milli() < 0) {
                let detail = "SizeLimit field must be a valid resource quantity";
                causes.push(Cause::forbidden(format!("{path}.sizeLimit"), detail));
            }
        }
        "nfs" => {
            if text(source, "server").is_empty() {
                causes.push(Cause::required(format!("{path}.server"), ""));
            }
            let directory = text(source, "path");
            if directory.is_empty() {
                causes.push(Cause::required(format!("{path}.path"), ""));
            } else if !directory.starts_with('/') {
                let detail = "must be an absolute path";
                causes.push(Cause::invalid(format!("{path}.path"), &source["path"], detail));
            }
        }
        "csi" => {
            let driver = Value::from(text(source, "driver").to_lowercase());
            name(NameRule::Subdomain, &driver, &format!("{path}.driver"), causes);
        }
        _ => {}
    }
}

fn projected(projection: &Value, path: &str, causes: &mut Vec<Cause>) {
    const KINDS: [&str; 4] = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];
    let mut paths = BTreeSet::new();
    for (index, source) in items(projection, "sources").iter().enumerate() {
        let path_of_source = format!("{path}.sources[{index}]");
        let given = KINDS.into_iter().filter(|kind| source[*kind].is_object());
        for kind in given.clone() {
            let (source, own) = (&source[kind], format!("{path_of_source}.{kind}"));
            match kind {
                "downwardAPI" => files::downward(source, &own, causes),
                "serviceAccountToken" => token(source, &own, path, causes),
                _ => {
                    if text(source, "name").is_empty() {
                        causes.push(Cause::required(format!("{own}.name"), ""));
                    }
                    files::keys(source, &own, causes);
                }
            }
            for file in items(source, "items").iter().chain(source["path"].is_string().then_some(source)) {
                let file = text(file, "path");
                if !file.is_empty() && !paths.insert(file) {
                    let shown = if text(source, "name").is_empty() { file } else { text(source, "name") };
                    causes.push(Cause::invalid(path, &Value::from(shown), "conflicting duplicate paths"));
                }
            }
        }
        if given.count() > 1 {
            let detail = "may not specify more than 1 volume type per source";
            causes.push(Cause::forbidden(path_of_source, detail));
        }
    }
}

/// Validates a token of a service account. kube-apiserver names the volume in errors about its path.
fn token(token: &Value, path: &str, volume: &str, causes: &mut Vec<Cause>) {
    let (seconds, own) = (&token["expirationSeconds"], format!("{path}.expirationSeconds"));
    match seconds.as_i64() {
        Some(..MIN_TOKEN_SECONDS) => {
            causes.push(Cause::invalid(own, seconds, "may not specify a duration less than 10 minutes"));
        }
        Some(seconds_given) if seconds_given > MAX_TOKEN_SECONDS => {
            let detail = "may not specify a duration larger than 2^32 seconds";
            causes.push(Cause::invalid(own, seconds, detail));
        }
        _ => {}
    }
    let own = format!("{volume}.path");
    if text(token, "path").is_empty() {
        causes.push(Cause::required(own, ""));
    } else {
        not_reserved(&token["path"], &own, causes);
    }
}
