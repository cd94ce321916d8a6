//! PersistentVolumes and PersistentVolumeClaims.

use serde_json::{Map, Value, json};

use super::{
    Strategy,
    checks::{items, name, one_of, selector, text},
    names::NameRule,
    quantity::Quantity,
    update::put,
};
use crate::Cause;

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// PersistentVolumeClaims.
#[derive(Debug)]
pub(crate) struct Claim;

impl Strategy for Claim {
    fn default(&self, value: &mut Value) {
        default_claim(value);
    }

    fn prepare_create(&self, value: &mut Value) {
        value["status"] = json!({"phase": "Pending"});
        protect(value, "kubernetes.io/pvc-protection");
    }

    fn validate(&self, value: &Value, live: Option<&Value>) -> Vec<Cause> {
        validate_claim(value, live)
    }

    fn warnings(&self, value: &Value) -> Vec<String> {
        Vec::from_iter(half_a_byte(&value["spec"]["resources"]["requests"], "spec.resources.requests"))
    }

    fn shows_deleted(&self) -> bool {
        true
    }
}

/// PersistentVolumes.
#[derive(Debug)]
pub(crate) struct Volume;

impl Strategy for Volume {
    fn prepare_create(&self, value: &mut Value) {
        // the server has just set the creation time
        let now = value["metadata"]["creationTimestamp"].clone();
        value["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
        protect(value, "kubernetes.io/pv-protection");
    }

    fn validate(&self, value: &Value, _live: Option<&Value>) -> Vec<Cause> {
        validate_volume(value)
    }

    fn shows_deleted(&self) -> bool {
        true
    }
}

/// Adds the finalizer that protects an object while it is in use.
fn protect(value: &mut Value, finalizer: &str) {
    let mut finalizers = value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|f| f == finalizer) {
        finalizers.push(Value::from(finalizer));
    }
    value["metadata"]["finalizers"] = Value::Array(finalizers);
}

/// Returns a warning if the size of the storage is not a whole number of bytes.
fn half_a_byte(amounts: &Value, path: &str) -> Option<String> {
    let size = amounts["storage"].as_str()?;
    let is_whole = Quantity::parse(size)?.milli() % 1000 == 0;
    (!is_whole)
        .then(|| format!("{path}[storage]: fractional byte value {size:?} is invalid, must be an integer"))
}

/// Drops a data source that is neither a claim nor a snapshot, because no controller could use it.
fn default_claim(value: &mut Value) {
    let source = &value["spec"]["dataSource"];
    let known = match text(source, "kind") {
        "PersistentVolumeClaim" => text(source, "apiGroup").is_empty(),
        "VolumeSnapshot" => text(source, "apiGroup") == "snapshot.storage.k8s.io",
        _ => false,
    };
    let reference = value["spec"]["dataSourceRef"].is_object();
    let Some(spec) = value.pointer_mut("/spec").and_then(Value::as_object_mut) else { return };
    if !known {
        spec.remove("dataSource");
    } else if !reference && let Some(source) = spec.get("dataSource").cloned() {
        spec.insert("dataSourceRef".to_owned(), source);
    }
}

/// Returns all validation errors of a claim.
fn validate_claim(value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    claim_spec(&value["spec"], "spec", &mut causes);
    if live.is_some() {
        // an update validates all of this twice, and reports each error twice
        causes.extend(causes.clone());
    }
    if let Some(live) = live {
        immutable(value, live, &mut causes);
    }
    causes
}

/// Everything wrong with what a claim asks for.
pub(super) fn claim_spec(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let at = |field: &str| format!("{path}.{field}");
    let modes = items(spec, "accessModes");
    if modes.is_empty() {
        causes.push(Cause::required(at("accessModes"), "at least 1 access mode is required"));
    }
    selector(&spec["selector"], &at("selector"), causes);
    for mode in modes {
        one_of(mode, &at("accessModes"), &MODES, causes);
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        let detail = "may not use ReadWriteOncePod with other access modes";
        causes.push(Cause::forbidden(at("accessModes"), detail));
    }
    match spec["resources"]["requests"]["storage"].as_str() {
        None => causes.push(Cause::required(at("resources[storage]"), "")),
        Some(size) if Quantity::parse(size).is_some_and(|size| size.milli() <= 0) => {
            causes.push(Cause::invalid(
                at("resources[storage]"),
                &Value::from(size),
                "must be greater than zero",
            ));
        }
        Some(_) => {}
    }
    if !text(spec, "storageClassName").is_empty() {
        name(NameRule::Subdomain, &spec["storageClassName"], &at("storageClassName"), causes);
    }
    one_of(&spec["volumeMode"], &at("volumeMode"), &["Block", "Filesystem"], causes);
    for key in ["dataSource", "dataSourceRef"] {
        if spec[key].is_object() && text(&spec[key], "name").is_empty() {
            causes.push(Cause::required(format!("{path}.{key}.name"), ""));
        }
    }
}

/// Only what a bound claim asks for, and what the cluster fills in, may change.
fn immutable(value: &Value, live: &Value, causes: &mut Vec<Cause>) {
    let (spec, old) = (&value["spec"], &live["spec"]);
    let mut kept = spec.clone();
    if text(old, "volumeName").is_empty() {
        put(&mut kept, "volumeName", old.get("volumeName").cloned());
    }
    // a claim without a class gets the default class later
    if old["storageClassName"].is_null() {
        put(&mut kept, "storageClassName", None);
    }
    if value["status"]["phase"] == "Bound" {
        if kept["resources"]["requests"].is_object() {
            let size = old["resources"]["requests"].get("storage").cloned();
            put(&mut kept["resources"]["requests"], "storage", size);
        }
        put(&mut kept, "volumeAttributesClassName", old.get("volumeAttributesClassName").cloned());
    }
    if without_empty(&kept) != without_empty(old) {
        causes.push(Cause::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
    let size = |text: &Value| text.as_str().and_then(Quantity::parse).map_or(0, Quantity::milli);
    let [new, asked] = [spec, old].map(|spec| size(&spec["resources"]["requests"]["storage"]));
    if new < asked && new <= size(&live["status"]["capacity"]["storage"]) {
        let detail = "field can not be less than status.capacity";
        causes.push(Cause::forbidden("spec.resources.requests.storage", detail));
    }
    if spec["volumeMode"] != old["volumeMode"] {
        causes.push(Cause::invalid("volumeMode", &spec["volumeMode"], "field is immutable"));
    }
}

/// Returns the spec without the empty parts of its resources, which mean the same as missing ones.
fn without_empty(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let amounts = spec["resources"].as_object();
    if amounts.is_none_or(|all| all.values().all(|amounts| amounts.as_object().is_none_or(Map::is_empty)))
        && let Some(fields) = spec.as_object_mut()
    {
        fields.remove("resources");
    }
    spec
}

/// Validates a persistent volume.
fn validate_volume(value: &Value) -> Vec<Cause> {
    /// The volume sources that are still served.
    const TYPES: [&str; 9] = ["hostPath", "nfs", "iscsi", "fc", "local", "csi", "cephfs", "rbd", "azureFile"];
    const OLD: [&str; 13] = [
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "cinder",
        "flocker",
        "flexVolume",
        "vsphereVolume",
        "quobyte",
        "azureDisk",
        "photonPersistentDisk",
        "portworxVolume",
        "scaleIO",
        "storageos",
    ];
    let mut causes = Vec::new();
    let spec = &value["spec"];
    let modes = items(spec, "accessModes");
    if modes.is_empty() {
        causes.push(Cause::required("spec.accessModes", ""));
    }
    for mode in modes {
        one_of(mode, "spec.accessModes", &MODES, &mut causes);
    }
    let capacity = spec["capacity"].as_object();
    if capacity.is_none_or(serde_json::Map::is_empty) {
        causes.push(Cause::required("spec.capacity", ""));
    }
    if capacity.is_none_or(|capacity| capacity.len() != 1 || !capacity.contains_key("storage")) {
        causes.push(Cause::unsupported("spec.capacity", &spec["capacity"], &["storage"]));
    }
    if let Some(size) = spec["capacity"]["storage"].as_str()
        && Quantity::parse(size).is_some_and(|size| size.milli() <= 0)
    {
        causes.push(Cause::invalid(
            "spec.capacity[storage]",
            &Value::from(size),
            "must be greater than zero",
        ));
    }
    let given: Vec<&str> = TYPES.into_iter().chain(OLD).filter(|kind| spec[kind].is_object()).collect();
    match given.as_slice() {
        [] => causes.push(Cause::required("spec", "must specify a volume type")),
        [_, others @ ..] => {
            for other in others {
                causes.push(Cause::forbidden(
                    format!("spec.{other}"),
                    "may not specify more than 1 volume type",
                ));
            }
        }
    }
    if spec["hostPath"].is_object() && text(&spec["hostPath"], "path").is_empty() {
        causes.push(Cause::required("spec.hostPath.path", ""));
    }
    one_of(
        &spec["persistentVolumeReclaimPolicy"],
        "spec.persistentVolumeReclaimPolicy",
        &["Delete", "Recycle", "Retain"],
        &mut causes,
    );
    one_of(&spec["volumeMode"], "spec.volumeMode", &["Block", "Filesystem"], &mut causes);
    causes
}
