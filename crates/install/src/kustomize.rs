//! The installation as a Kustomize base, and any other choice of values as an overlay on it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    InstallError, Installation, Values, controller,
    file::{File, GENERATED, documents},
    metadata::label,
    monitoring,
    names::{self, LABEL, LABEL_VALUE},
    picker, rights,
};

/// The files of the base, with the kinds in each. An object belongs to the first file that lists its kind.
pub(crate) const PARTS: [(&str, &[&str]); 4] = [
    ("namespace.yaml", &["Namespace"]),
    ("settings.yaml", &["ConfigMap"]),
    ("webhooks.yaml", &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]),
    ("controller.yaml", &["Deployment", "Service", "PodDisruptionBudget"]),
];

/// The identity of an object: kind, namespace, name.
type Identity = (String, String, String);

/// Returns the base in `deploy/kustomize/base`: everything except presets, with the default values.
///
/// # Errors
///
/// [`InstallError`].
pub(crate) fn base(namespace: &str) -> Result<Vec<File>, InstallError> {
    let installation = Installation::new(namespace, &Values::default())?;
    let mut files = Vec::new();
    let mut resources = vec!["../../crds".to_owned(), "../../rbac".to_owned()];
    for (name, kinds) in PARTS {
        let belongs = |object: &&Value| object["kind"].as_str().is_some_and(|kind| kinds.contains(&kind));
        let text = documents(installation.controller.iter().filter(belongs))?;
        files.push(File::generated(&format!("kustomize/base/{name}"), &text));
        resources.push(name.to_owned());
    }
    files.push(kustomization(
        "kustomize/base",
        "Everything except the presets, which go through the webhooks: apply `deploy/presets` afterwards.",
        &json!({
            "resources": resources,
            "labels": [{"pairs": {LABEL: LABEL_VALUE}}],
        }),
    )?);
    files.push(kustomization(
        "rbac",
        "The RBAC rules, for `deploy/kustomize/base`.",
        &rights::kustomization(),
    )?);
    files.push(kustomization(
        "crds",
        "The CRDs of Longboat's own kinds. Other CRDs come with the software that serves them.",
        &json!({"resources": [
            "serving.kserve.io_llminferenceserviceconfigs.yaml",
            "serving.kserve.io_llminferenceservices.yaml",
        ]}),
    )?);
    Ok(files)
}

/// Returns the components in `deploy/kustomize/components`: what `monitoring.enabled`, `gateway.enabled` and
/// `sharedPicker.enabled` add to an installation.
///
/// # Errors
///
/// [`InstallError`].
pub(crate) fn components(namespace: &str) -> Result<Vec<File>, InstallError> {
    let values = Values::default();
    let monitors = monitoring::objects(namespace, &values)?;
    let mut files = component(
        "monitoring",
        "monitoring",
        "Monitors and alerts for the Prometheus Operator.",
        &monitors,
        None,
    )?;
    let mut class: Vec<Value> = serde_saphyr::from_multiple(rights::GATEWAY)?;
    class.iter_mut().for_each(label);
    let argument = json!([{
        "op": "add",
        "path": "/spec/template/spec/containers/0/args/-",
        "value": controller::gateway_argument(&values),
    }]);
    let patch = serde_saphyr::to_string(&argument).map_err(InstallError::Print)?;
    let patch = json!({"target": {"kind": "Deployment", "name": names::CONTROLLER}, "patch": patch});
    files.extend(component("gateway", "gateway", "The GatewayClass `longboat`.", &class, Some(patch))?);
    let picker = picker::objects(namespace, &values)?;
    files.extend(component("shared-picker", "picker", "The picker that pools share.", &picker, None)?);
    Ok(files)
}

/// A component: objects in a file of their own, and a patch of the base.
fn component(
    name: &str,
    file: &str,
    about: &str,
    objects: &[Value],
    patch: Option<Value>,
) -> Result<Vec<File>, InstallError> {
    let folder = format!("kustomize/components/{name}");
    let comment = format!("{about} Add it to your overlay: `components: [../../components/{name}]`.");
    let mut content = json!({
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "resources": [format!("{file}.yaml")],
    });
    if let Some(patch) = patch {
        content["patches"] = json!([patch]);
    }
    Ok(vec![
        File::generated(&format!("{folder}/{file}.yaml"), &documents(objects.iter())?),
        kustomization(&folder, &comment, &content)?,
    ])
}

/// Returns the overlay in `deploy/kustomize/overlays/NAME`, which changes the base to an installation with `values`.
///
/// # Errors
///
/// [`InstallError`].
pub(crate) fn overlay(name: &str, namespace: &str, values: &Values) -> Result<Vec<File>, InstallError> {
    let (before, after) =
        (Installation::new(namespace, &Values::default())?, Installation::new(namespace, values)?);
    // Presets are in no overlay, as they are not in the base.
    let before: BTreeMap<Identity, &Value> = before
        .definitions
        .iter()
        .chain(&before.controller)
        .map(|object| (identity(object), object))
        .collect();
    let mut patches = Vec::new();
    let mut added = Vec::new();
    let mut kept = Vec::new();
    for object in after.definitions.iter().chain(&after.controller) {
        let identity = identity(object);
        let Some(old) = before.get(&identity) else {
            added.push(object);
            continue;
        };
        let patch = json_patch::diff(old, object);
        if !patch.0.is_empty() {
            let patch =
                serde_saphyr::to_string(&serde_json::to_value(patch)?).map_err(InstallError::Print)?;
            patches.push(json!({"target": target(object), "patch": patch}));
        }
        kept.push(identity);
    }
    for (identity, object) in before {
        if !kept.contains(&identity) {
            let patch = json!({
                "$patch": "delete",
                "apiVersion": object["apiVersion"],
                "kind": object["kind"],
                "metadata": {"name": object["metadata"]["name"]},
            });
            let patch = serde_saphyr::to_string(&patch).map_err(InstallError::Print)?;
            patches.push(json!({"target": target(object), "patch": patch}));
        }
    }
    let folder = format!("kustomize/overlays/{name}");
    let mut resources = vec!["../../base"];
    let mut files = Vec::new();
    if !added.is_empty() {
        resources.push("added.yaml");
        files.push(File::generated(&format!("{folder}/added.yaml"), &documents(added.into_iter())?));
    }
    let content = json!({"resources": resources, "patches": patches});
    files.push(kustomization(
        &folder,
        "The base with the values of `values.yaml` beside this file.",
        &content,
    )?);
    Ok(files)
}

fn kustomization(folder: &str, comment: &str, content: &Value) -> Result<File, InstallError> {
    let mut all = json!({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"});
    if let (Some(all), Some(content)) = (all.as_object_mut(), content.as_object()) {
        all.extend(content.clone());
    }
    let text = serde_saphyr::to_string(&all).map_err(InstallError::Print)?;
    Ok(File { path: format!("{folder}/kustomization.yaml"), text: format!("{GENERATED}# {comment}\n{text}") })
}

fn identity(object: &Value) -> Identity {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    (text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
}

/// The target of a patch, in Kustomize's form.
fn target(object: &Value) -> Value {
    let mut target = json!({"kind": object["kind"], "name": object["metadata"]["name"]});
    if let Some(namespace) = object["metadata"].get("namespace") {
        target["namespace"] = namespace.clone();
    }
    target
}
