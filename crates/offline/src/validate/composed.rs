//! What the API server would report about a service with the composed spec, at the fields of the layers that set it.

use std::collections::BTreeSet;

use longboat_api::v1alpha2::API_VERSION;
use longboat_compose::{Effective, Origin};
use longboat_manifest::Document;
use serde_json::json;

use super::{gateway_refs, layers::Layers, picker};
use crate::{
    finding::{Finding, ObjectName, Severity, Source},
    stored::object::Examination,
};

impl Layers<'_> {
    /// Adds what the API server would report about a service with the composed spec. The controller asks it before it goes
    /// on.
    pub(super) fn rendered(
        &self,
        document: &Document,
        name: &ObjectName,
        effective: &Effective,
        findings: &mut Vec<Finding>,
    ) {
        let Ok(spec) = serde_json::to_value(&effective.spec) else { return };
        let object = json!({
            "apiVersion": API_VERSION, "kind": "LLMInferenceService",
            "metadata": {"generateName": format!("{}-", name.name), "namespace": name.namespace},
            "spec": spec,
        });
        let examination = Examination { document, name, resource: self.resource, facts: self.facts };
        let (found, _) = examination.run(object);
        // Templates of several fields may read one value.
        let mut known = BTreeSet::new();
        for mut finding in found {
            // Some fields exist only because a type always writes them. They are nobody's mistake.
            if finding.severity != Severity::Error || finding.reason == "UnknownField" {
                continue;
            }
            finding.source = Source::Compose;
            let problem = finding.message.clone();
            match self.unreadable_picker_config(&finding, document, effective) {
                Some(of_map) => finding = of_map,
                None => self.blame(&mut finding, document, effective),
            }
            if known.insert((finding.path.clone(), problem)) {
                findings.push(finding);
            }
        }
    }

    /// Returns the mistake in the ConfigMap from which composing took the picker's configuration.
    fn unreadable_picker_config(
        &self,
        finding: &Finding,
        document: &Document,
        effective: &Effective,
    ) -> Option<Finding> {
        if finding.path != "spec.router.scheduler.config.inline" || effective.scheduler_config_map.is_none() {
            return None;
        }
        let configs = self.scene.layer_documents(effective).map(|(_, document)| document);
        let layers: Vec<&Document> = std::iter::once(document).chain(configs).collect();
        let namespace = effective.scheduler_config_map.as_ref()?.namespace.as_deref();
        picker::unreadable_reference(self.scene, &layers, finding, namespace)
    }

    /// Moves a finding to the layer that set the field, and names that layer.
    fn blame(&self, finding: &mut Finding, document: &Document, effective: &Effective) {
        let layers: Vec<String> =
            effective.applied.iter().map(|config| format!("{}/{}", config.namespace, config.name)).collect();
        let merged = format!("after merging [{}]", layers.join(", "));
        "InvalidRenderedConfig".clone_into(&mut finding.reason);
        let configs = self.scene.layer_documents(effective).map(|(_, document)| document);
        if gateway_refs::blame(finding, std::iter::once(document).chain(configs)) {
            return;
        }
        let is_own = document.locate(&finding.path).exists;
        let read = if is_own { None } else { read_by_template(effective, &finding.path) };
        finding.message = match &read {
            Some(_) => format!("{} (at {}, {merged})", finding.message, finding.path),
            None => format!("{} ({merged})", finding.message),
        };
        if let Some(path) = read {
            finding.move_to(document, &path);
            if path == "spec.model.name" {
                finding.hint = Some(
                    "the route has the name in its paths: use letters, digits and any of -._~".to_owned(),
                );
            }
        }
        if document.locate(&finding.path).exists {
            return;
        }
        let provenance = effective.provenance();
        let target = names_of(finding.path.trim_start_matches("spec."));
        let origin = provenance.iter().find_map(|(path, leaf)| {
            let names = names_of(path);
            (names.starts_with(&target) || target.starts_with(&names)).then_some(&leaf.origin)
        });
        let Some(origin @ (Origin::Config(key) | Origin::Runtime(key))) = origin else { return };
        finding.hint = Some(format!("the field comes from {origin}"));
        if let Some(document) = self.scene.config_document(key) {
            let path = finding.path.clone();
            finding.move_to(document, &path);
        }
    }
}

/// Returns the field of the spec that the template at or below a path reads, if it reads one.
fn read_by_template(effective: &Effective, path: &str) -> Option<String> {
    let pointer = path.strip_prefix("spec")?.replace(['.', '['], "/").replace(']', "");
    let provenance = effective.provenance();
    let mut leaves = provenance.iter().map(|(_, leaf)| leaf).filter(|leaf| {
        let below = leaf.pointer.strip_prefix(&pointer);
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    leaves.find_map(|leaf| {
        let inputs = effective.template_inputs(leaf.layer_value.as_ref()?.as_str()?).into_iter();
        let mut paths = inputs.filter_map(|input| input.path).filter(|path| path.starts_with("spec."));
        let only = paths.next()?;
        paths.all(|other| other == only).then_some(only)
    })
}

/// The names of a path, without brackets, because lists are addressed by position on one side and by key on the other.
fn names_of(path: &str) -> Vec<&str> {
    path.split('.').map(|part| part.split('[').next().unwrap_or_default()).collect()
}
