//! Findings from the advice about a composed service.

use longboat_api::v1alpha2::LLMInferenceService;
use longboat_compose::{Effective, Provenance};
use longboat_key::{Name, Namespace};
use longboat_manifest::Document;
use longboat_plan::{paths, secret_command};

use crate::{
    advice::{self},
    finding::{Advice, Finding, ObjectName, Source},
    refusal,
    scene::{PlannedService, Scene},
};

/// Returns the advice about a composed service as findings, each at the field of the manifest that sets it.
pub(super) fn findings(
    scene: &Scene,
    document: &Document,
    name: &ObjectName,
    service: &LLMInferenceService,
    effective: &Effective,
    planned: Option<&PlannedService>,
) -> Vec<Finding> {
    let all = advice::of(scene, service, effective, planned.map(|planned| &planned.plan));
    let mut findings = located(scene, document, name, effective, all);
    let missing = planned.and_then(|planned| missing_secret(scene, document, name, service, planned));
    findings.extend(missing);
    findings
}

/// Returns advice as findings.
pub(super) fn located(
    scene: &Scene,
    document: &Document,
    name: &ObjectName,
    effective: &Effective,
    all: Vec<Advice>,
) -> Vec<Finding> {
    // Computing provenance is expensive, and most services need no advice.
    let provenance = (!all.is_empty()).then(|| effective.provenance());
    let mut findings: Vec<Finding> = Vec::with_capacity(all.len());
    for advice in all {
        let below = advice.path.trim_start_matches("spec.");
        let mut leaves = provenance.iter().flat_map(Provenance::iter);
        let leaf = leaves.find(|(path, _)| path.starts_with(below));
        let layer = leaf.map_or(Some(document), |(_, leaf)| scene.document_of(&leaf.origin, document));
        findings.push(finding(layer, document, name, advice));
    }
    findings
}

/// Returns the finding at the field in its layer, or else in the service, or at the nearest parent that the service has.
fn finding(layer: Option<&Document>, document: &Document, name: &ObjectName, advice: Advice) -> Finding {
    let mut layers = layer.into_iter().chain([document]);
    let place = layers.find_map(|layer| Some((layer, paths::positions(&layer.object, &advice.path)?)));
    let finding = if let Some((layer, path)) = place {
        Finding::at(layer, name, &path, Source::Plan)
    } else {
        let (_, parent) = refusal::nearest(document, &advice.path);
        Finding { path: advice.path.clone(), ..Finding::at(document, name, &parent, Source::Plan) }
    };
    finding.with_advice(advice)
}

/// Returns a finding if the Secret that the service names for its download is not in the manifests.
fn missing_secret(
    scene: &Scene,
    document: &Document,
    name: &ObjectName,
    service: &LLMInferenceService,
    planned: &PlannedService,
) -> Option<Finding> {
    let annotation = &scene.snapshot().platform.credentials.storage_secret_name_annotation;
    let secret = service.metadata.annotations.as_ref()?.get(annotation)?;
    let (namespace, key) = (Namespace(&*name.namespace), Name(&**secret));
    // Only planning knows whether there is a download that needs the Secret.
    let is_assumed = scene.snapshot().secrets.get(namespace, key).is_none()
        && planned.snapshot.secrets.get(namespace, key).is_some();
    is_assumed.then(|| {
        let message = format!("Secret {namespace}/{secret} is not in these files");
        let path = format!("metadata.annotations[{annotation}]");
        let finding = Finding::at(document, name, &path, Source::Plan).warning("SecretNotFound", message);
        let spec = planned.effective.as_ref().map_or(&service.spec, |effective| &effective.spec);
        let address = spec.model.uri.address();
        let command = secret_command(&scene.snapshot().platform, namespace, secret, &address);
        let command = command.map(|command| format!(": `{command}`")).unwrap_or_default();
        finding.with_hint(format!("it must exist on the cluster before the model can be downloaded{command}"))
    })
}
