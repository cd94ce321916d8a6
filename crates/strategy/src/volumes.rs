//! PersistentVolumes.

use serde_json::{Map, Value, json};

use super::{
    Strategy,
    checks::{IMMUTABLE, driver_name, first_of},
    names::NameRule,
    pod,
    quantity::Quantity,
    storage::{access_modes, is_above_zero, protect},
};
use crate::Field;

/// PersistentVolumes.
#[derive(Debug)]
pub(crate) struct Volume;

/// The volume sources, in the order in which kube-apiserver checks them, with the fields that each needs.
const SOURCES: [(&str, &[&str]); 22] = [
    ("hostPath", &[]),
    ("gcePersistentDisk", &[]),
    ("awsElasticBlockStore", &[]),
    ("glusterfs", &[]),
    ("flocker", &[]),
    ("nfs", &[]),
    ("rbd", &["monitors", "image"]),
    ("quobyte", &[]),
    ("cephfs", &["monitors"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("cinder", &[]),
    ("fc", &[]),
    ("flexVolume", &[]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &[]),
    ("photonPersistentDisk", &[]),
    ("portworxVolume", &[]),
    ("azureDisk", &[]),
    ("scaleIO", &[]),
    ("local", &["path"]),
    ("storageos", &[]),
    ("csi", &["volumeHandle"]),
];

/// The references of a CSI volume to Secrets that are checked.
const CSI_SECRETS: [&str; 4] = [
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
];

impl Strategy for Volume {
    fn prepare_create(&self, value: &mut Value) {
        // the server has just set the creation time
        let now = value["metadata"]["creationTimestamp"].clone();
        value["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
        protect(value, "kubernetes.io/pv-protection");
    }

    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        let spec = object.at("spec");
        validate(&spec);
        if let Some(live) = live {
            // an update validates all of this twice, and reports each error twice
            object.repeat();
            immutable(&spec, &live["spec"]);
        }
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

fn validate(spec: &Field<'_>) {
    let modes = spec.at("accessModes");
    if spec.list("accessModes").is_empty() {
        modes.required("");
    }
    access_modes(spec);
    capacity(&spec.at("capacity"));
    let policy = spec.at("persistentVolumeReclaimPolicy");
    policy.one_of(&["Delete", "Recycle", "Retain"]);
    let affinity = spec.at("nodeAffinity");
    if affinity["required"].is_object() {
        pod::node_selector(&affinity.at("required"));
    } else if affinity.is_object() {
        affinity.at("required").required("must specify required node constraints");
    }
    let names = SOURCES.map(|(name, _)| name);
    match first_of(spec, &names, "volume type") {
        Some(kind) => source(kind, &spec.at(kind)),
        None => spec.required("must specify a volume type"),
    }
    if spec["local"].is_object() && !affinity.is_object() {
        affinity.required("Local volume requires node affinity");
    }
    if spec.text("hostPath.path") == "/" && policy.as_text() == "Recycle" {
        policy.forbidden("may not be 'recycle' for a hostPath mount of '/'");
    }
    spec.at("storageClassName").optional_name(NameRule::Subdomain);
    spec.at("volumeMode").one_of(&["Block", "Filesystem"]);
    let attributes = spec.at("volumeAttributesClassName");
    if !attributes.is_null() {
        attributes.not_empty("an empty string is disallowed");
        attributes.optional_name(NameRule::Subdomain);
        if !spec["csi"].is_object() {
            spec.at("csi").required("has to be specified when using volumeAttributesClassName");
        }
    }
}

fn capacity(amounts: &Field<'_>) {
    let given = amounts.as_object();
    if given.is_none_or(Map::is_empty) {
        amounts.required("");
    }
    if given.is_none_or(|given| given.len() != 1 || !given.contains_key("storage")) {
        amounts.unsupported(&["storage"]);
    }
    let size = amounts.at("storage").named("spec.capacity[storage]");
    if let Some(quantity) = size.as_str().and_then(Quantity::parse).filter(|quantity| quantity.milli() < 0) {
        size.invalid_as(quantity.milli() / 1000, "must be a valid resource quantity");
    }
    is_above_zero(&size);
}

fn source(kind: &str, source: &Field<'_>) {
    let needed = SOURCES.iter().find(|(name, _)| *name == kind).map_or(&[][..], |(_, needed)| needed);
    for field in needed.iter().map(|field| source.at(field)) {
        if field.as_array().map_or(field.as_text().is_empty(), Vec::is_empty) {
            field.required("");
        }
    }
    match kind {
        "hostPath" | "nfs" => pod::volume_source(kind, source),
        "local" => pod::forbid_parent_path(&source.at("path")),
        "azureFile" if !source["secretNamespace"].is_null() => source.at("secretNamespace").not_empty(""),
        "csi" => {
            driver_name(&source.text_at("driver"));
            for secret in CSI_SECRETS.iter().map(|name| source.at(name)).filter(|secret| secret.is_object()) {
                secret.at("name").required_name(NameRule::Subdomain);
                secret.at("namespace").required_name(NameRule::Label);
            }
        }
        _ => {}
    }
}

/// The source of a volume does not change, nor where it is, once this is known.
fn immutable(spec: &Field<'_>, live: &Value) {
    let sources = |spec: &Value| SOURCES.map(|(name, _)| spec[name].clone());
    let mut old = live.clone();
    if old["csi"].is_object() && old["csi"]["controllerExpandSecretRef"].is_null() {
        old["csi"]["controllerExpandSecretRef"] = spec["csi"]["controllerExpandSecretRef"].clone();
    }
    if sources(spec) != sources(&old) {
        spec.at("persistentvolumesource")
            .forbidden("spec.persistentvolumesource is immutable after creation");
    }
    if spec["volumeMode"] != live["volumeMode"] {
        spec.at("volumeMode").named("volumeMode").invalid(IMMUTABLE);
    }
    if live["nodeAffinity"].is_object() && spec["nodeAffinity"] != live["nodeAffinity"] {
        let detail = format!("{IMMUTABLE}, except for updating from beta label to GA");
        spec.at("nodeAffinity").named("nodeAffinity").invalid(detail);
    }
    let attributes = spec.at("volumeAttributesClassName");
    if attributes.is_null() && !live["volumeAttributesClassName"].is_null() {
        attributes.forbidden("update from non-nil value to nil is forbidden");
    }
}
