//! PersistentVolumes and PersistentVolumeClaims.

use serde_json::{Map, Value, json};

use super::{
    Strategy,
    checks::{IMMUTABLE, selector},
    names::NameRule,
    quantity::Quantity,
    update::put,
};
use crate::Field;

const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// PersistentVolumeClaims.
#[derive(Debug)]
pub(crate) struct Claim;

impl Strategy for Claim {
    /// Drops a data source that is neither a claim nor a snapshot, because no controller could use it.
    fn default(&self, value: &mut Value) {
        let source = &value["spec"]["dataSource"];
        let text = |key: &str| source[key].as_str().unwrap_or_default();
        let known = match text("kind") {
            "PersistentVolumeClaim" => text("apiGroup").is_empty(),
            "VolumeSnapshot" => text("apiGroup") == "snapshot.storage.k8s.io",
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

    fn prepare_create(&self, value: &mut Value) {
        value["status"] = json!({"phase": "Pending"});
        protect(value, "kubernetes.io/pvc-protection");
    }

    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        claim_spec(&object.at("spec"));
        if let Some(live) = live {
            // an update validates all of this twice, and reports each error twice
            object.repeat();
            immutable(object, live);
        }
    }

    fn warnings(&self, value: &Value) -> Vec<String> {
        Vec::from_iter(fractional_bytes_warning(
            &value["spec"]["resources"]["requests"],
            "spec.resources.requests",
        ))
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

    fn validate(&self, object: &Field<'_>, _live: Option<&Value>) {
        validate_volume(&object.at("spec"));
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
fn fractional_bytes_warning(amounts: &Value, path: &str) -> Option<String> {
    let size = amounts["storage"].as_str()?;
    let is_whole = Quantity::parse(size)?.milli() % 1000 == 0;
    (!is_whole)
        .then(|| format!("{path}[storage]: fractional byte value {size:?} is invalid, must be an integer"))
}

/// Validates what a claim asks for.
pub(super) fn claim_spec(spec: &Field<'_>) {
    let modes = spec.at("accessModes");
    if spec.list("accessModes").is_empty() {
        modes.required("at least 1 access mode is required");
    }
    selector(&spec.at("selector"));
    access_modes(spec);
    let given = spec.list("accessModes");
    if given.len() > 1 && given.iter().any(|mode| mode == "ReadWriteOncePod") {
        modes.forbidden("may not use ReadWriteOncePod with other access modes");
    }
    let size = spec.at("resources.requests.storage").named(format!("{}.resources[storage]", spec.path));
    if !size.is_string() {
        size.required("");
    }
    is_above_zero(&size);
    spec.at("storageClassName").optional_name(NameRule::Subdomain);
    spec.at("volumeMode").one_of(&["Block", "Filesystem"]);
    for key in ["dataSource", "dataSourceRef"] {
        if spec[key].is_object() {
            spec.at(key).at("name").not_empty("");
        }
    }
}

/// kube-apiserver omits the index of a mode.
fn access_modes(spec: &Field<'_>) {
    let modes = spec.at("accessModes");
    spec.list("accessModes").iter().for_each(|mode| modes.with(mode).one_of(&MODES));
}

fn is_above_zero(size: &Field<'_>) {
    if size.as_str().and_then(Quantity::parse).is_some_and(|size| size.milli() <= 0) {
        size.invalid("must be greater than zero");
    }
}

/// Only what a bound claim asks for, and what the cluster fills in, may change.
fn immutable(object: &Field<'_>, live: &Value) {
    let (spec, old) = (object.at("spec"), &live["spec"]);
    let mut kept = spec.value.clone();
    if old["volumeName"].as_str().is_none_or(str::is_empty) {
        put(&mut kept, "volumeName", old.get("volumeName").cloned());
    }
    // a claim without a class gets the default class later
    if old["storageClassName"].is_null() {
        put(&mut kept, "storageClassName", None);
    }
    if object["status"]["phase"] == "Bound" {
        if kept["resources"]["requests"].is_object() {
            let size = old["resources"]["requests"].get("storage").cloned();
            put(&mut kept["resources"]["requests"], "storage", size);
        }
        put(&mut kept, "volumeAttributesClassName", old.get("volumeAttributesClassName").cloned());
    }
    if without_empty(&kept) != without_empty(old) {
        spec.forbidden(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        );
    }
    let size = |text: &Value| text.as_str().and_then(Quantity::parse).map_or(0, Quantity::milli);
    let [new, asked] = [spec.value, old].map(|spec| size(&spec["resources"]["requests"]["storage"]));
    if new < asked && new <= size(&live["status"]["capacity"]["storage"]) {
        spec.at("resources.requests.storage").forbidden("field can not be less than status.capacity");
    }
    if spec["volumeMode"] != old["volumeMode"] {
        spec.at("volumeMode").named("volumeMode").invalid(IMMUTABLE);
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
fn validate_volume(spec: &Field<'_>) {
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
    if spec.list("accessModes").is_empty() {
        spec.at("accessModes").required("");
    }
    access_modes(spec);
    let amounts = spec.at("capacity");
    let capacity = amounts.as_object();
    if capacity.is_none_or(Map::is_empty) {
        amounts.required("");
    }
    if capacity.is_none_or(|capacity| capacity.len() != 1 || !capacity.contains_key("storage")) {
        amounts.unsupported(&["storage"]);
    }
    is_above_zero(&amounts.at("storage").named("spec.capacity[storage]"));
    let given: Vec<&str> = TYPES.into_iter().chain(OLD).filter(|kind| spec[kind].is_object()).collect();
    if given.is_empty() {
        spec.required("must specify a volume type");
    }
    for other in given.iter().skip(1) {
        spec.at(other).forbidden("may not specify more than 1 volume type");
    }
    if spec["hostPath"].is_object() {
        spec.at("hostPath.path").not_empty("");
    }
    spec.at("persistentVolumeReclaimPolicy").one_of(&["Delete", "Recycle", "Retain"]);
    spec.at("volumeMode").one_of(&["Block", "Filesystem"]);
}
