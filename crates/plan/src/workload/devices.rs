//! Accelerators by dynamic resource allocation, which annotations of the service ask for.

use k8s_openapi::{
    api::resource::v1::{
        CELDeviceSelector, DeviceClaim, DeviceRequest, DeviceSelector, ExactDeviceRequest, ResourceClaimSpec,
        ResourceClaimTemplate, ResourceClaimTemplateSpec,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_api::annotations::{DRA_CEL_SELECTOR, DRA_DEVICE_CLASS, DRA_DEVICE_COUNT, DRA_DEVICES};
use sha2::{Digest, Sha256};

use crate::{compare::Compare, context::Context, draft::Draft, key::Kind, labels::Map, names};

/// Returns the template from which each pod gets a claim, or `None` if the service asks for no devices.
///
/// # Errors
/// If the cluster does not serve resource claims, or the number of devices is zero.
pub(super) fn plan(context: &Context) -> Result<Option<ResourceClaimTemplate>, String> {
    let annotation = |key: &str| context.annotation(key).map(str::trim);
    let Some(class) = annotation(DRA_DEVICE_CLASS) else { return Ok(None) };
    if !context.snapshot.capabilities.resource_claim_template {
        context.snapshot.check_listed(&[context.namespace], &[Kind::ResourceClaimTemplate])?;
        return Err(format!(
            "the cluster does not serve resource.k8s.io/v1 (ResourceClaimTemplate), which the annotation \
             {DRA_DEVICE_CLASS} needs: upgrade the cluster to Kubernetes 1.34 or later, or remove the \
             annotation"
        ));
    }
    let count = match annotation(DRA_DEVICE_COUNT) {
        None => 1,
        Some(text) => text.parse().ok().filter(|count: &i64| *count >= 1).ok_or_else(|| {
            format!("annotation {DRA_DEVICE_COUNT} is \"{text}\": expected a whole number of at least 1")
        })?,
    };
    let expressions = annotation(DRA_CEL_SELECTOR).unwrap_or_default();
    let selectors: Vec<DeviceSelector> = expressions
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| DeviceSelector { cel: Some(CELDeviceSelector { expression: line.to_owned() }) })
        .collect();
    let request = DeviceRequest {
        name: "device".into(),
        exactly: Some(ExactDeviceRequest {
            device_class_name: class.to_owned(),
            count: Some(count).filter(|count| *count > 1),
            selectors: Some(selectors).filter(|all| !all.is_empty()),
            ..ExactDeviceRequest::default()
        }),
        first_available: None,
    };
    let devices = DeviceClaim { requests: Some(vec![request]), ..DeviceClaim::default() };
    // Without labels, as in the reference: its owner reference is enough to watch and remove it.
    let mut metadata = context.child_metadata(names::device_claims(context.name), Map::new());
    metadata.labels = None;
    let mut template = ResourceClaimTemplate {
        metadata,
        spec: ResourceClaimTemplateSpec {
            metadata: None,
            spec: ResourceClaimSpec { devices: Some(devices) },
        },
    };
    let live = context.own::<ResourceClaimTemplate>(&names::device_claims(context.name));
    // A template that the reference created has no mark. A mark alone would restart its pods, so it waits until the devices change.
    if live.is_none_or(|live| mark(&live.metadata).is_some() || template.must_be_recreated(live)) {
        let digest = digest(&template.spec);
        template.metadata.annotations.get_or_insert_default().insert(DRA_DEVICES.into(), digest);
    }
    Ok(Some(template))
}

/// Marks pods with a hash of the planned devices. A pod keeps its claim for life, so other devices need other pods.
pub(super) fn mark_pods(draft: &Draft, pods: &mut ObjectMeta) {
    let mark = draft.children.resource_claim_templates.iter().find_map(|template| mark(&template.metadata));
    if let Some(mark) = mark {
        pods.annotations.get_or_insert_default().insert(DRA_DEVICES.into(), mark.to_owned());
    }
}

fn mark(metadata: &ObjectMeta) -> Option<&str> {
    metadata.annotations.as_ref()?.get(DRA_DEVICES).map(String::as_str)
}

fn digest(spec: &ResourceClaimTemplateSpec) -> String {
    let text = serde_json::to_string(spec).unwrap_or_default();
    format!("{:.16x}", Sha256::digest(text))
}
