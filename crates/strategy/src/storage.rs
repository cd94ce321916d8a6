//! PersistentVolumeClaims, and what PersistentVolumes share with them.

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
        if !known && !reference {
            spec.remove("dataSource");
        } else if !reference && let Some(source) = spec.get("dataSource").cloned() {
            spec.insert("dataSourceRef".to_owned(), source);
        } else if !spec.get("dataSource").is_some_and(Value::is_object)
            && let Some(source) =
                spec.get("dataSourceRef").filter(|source| source["namespace"].is_null()).cloned()
        {
            spec.insert("dataSource".to_owned(), source);
        }
    }

    fn prepare_create(&self, value: &mut Value) {
        value["status"] = json!({"phase": "Pending"});
        protect(value, "kubernetes.io/pvc-protection");
    }

    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        claim_spec(&object.at("spec"));
        if let Some(live) = live {
            // The sources do not change, and older servers took any group.
            object.causes().retain(|cause| !cause.field.ends_with(".apiGroup"));
            // an update validates all of this twice, and reports each error twice
            object.repeat();
            immutable(object, live);
        }
    }

    fn warnings(&self, value: &Value, _live: Option<&Value>) -> Vec<String> {
        Vec::from_iter(fractional_bytes_warning(
            &value["spec"]["resources"]["requests"],
            "spec.resources.requests",
        ))
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// Adds the finalizer that protects an object while it is in use.
pub(super) fn protect(value: &mut Value, finalizer: &str) {
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
    let size = spec.at("resources.requests.storage").named(format!("{}.resources[storage]", spec.path));
    if !size.is_string() {
        size.required("");
    }
    is_above_zero(&size);
    spec.at("storageClassName").optional_name(NameRule::Subdomain);
    spec.at("volumeMode").one_of(&["Block", "Filesystem"]);
    let attributes = spec.at("volumeAttributesClassName");
    attributes.optional_name(NameRule::Subdomain);
    let [source, reference] = ["dataSource", "dataSourceRef"].map(|key| spec.at(key));
    for source in [&source, &reference].into_iter().filter(|source| source.is_object()) {
        data_source(source);
    }
    if source.is_object() && reference.is_object() {
        let (has_namespace, text) = (!reference.text("namespace").is_empty(), |source: &Field<'_>| {
            ["apiGroup", "kind", "name"].map(|key| source.text(key).to_owned())
        });
        let detail = if has_namespace {
            "may not be specified when dataSourceRef.namespace is specified"
        } else if text(&source) != text(&reference) {
            "must match dataSourceRef"
        } else {
            return;
        };
        spec.invalid_as("\"spec.dataSource\"", detail);
    }
}

/// Validates the origin of the data of a volume.
fn data_source(source: &Field<'_>) {
    source.at("name").not_empty("");
    source.at("kind").not_empty("");
    let group = source.at("apiGroup");
    if group.as_text().is_empty() && source.text("kind") != "PersistentVolumeClaim" {
        let kind = Value::from(source.text("kind"));
        source.invalid_as(kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    }
    group.optional_name(NameRule::Subdomain);
    source.at("namespace").optional_name(NameRule::Label);
}

/// kube-apiserver omits the index of a mode.
pub(super) fn access_modes(spec: &Field<'_>) {
    let (modes, given) = (spec.at("accessModes"), spec.list("accessModes"));
    for mode in given {
        modes.with(mode).one_of(&MODES);
    }
    let is_known = |mode: &Value| mode.as_str().is_some_and(|mode| MODES.contains(&mode));
    let is_alone = |mode: &&Value| *mode == "ReadWriteOncePod";
    let (alone, others): (Vec<_>, Vec<_>) = given.iter().filter(|mode| is_known(mode)).partition(is_alone);
    if !alone.is_empty() && !others.is_empty() {
        modes.forbidden("may not use ReadWriteOncePod with other access modes");
    }
}

pub(super) fn is_above_zero(size: &Field<'_>) {
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
