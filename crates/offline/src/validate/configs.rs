//! Configs that no service in the manifests uses. A service that has nothing else shows what is wrong with them.

use longboat_api::{names::preset, v1alpha2::API_VERSION};
use longboat_manifest::Document;
use serde_json::json;

use super::layers::Layers;
use crate::{
    finding::{Finding, ObjectName, Severity},
    scene::completed,
    stored::StoredManifest,
};

/// The model of the service. Its address is the only field that a service needs.
const MODEL: &str = "hf://owner/model";
/// The name of its file. No manifest has it.
const SOURCE: &str = "";
/// Reasons of rules between fields, such as those of `worker` and `parallelism`. Other layers may set some of the fields.
const OF_THE_WHOLE: [&str; 2] = ["InvalidRenderedConfig", "PrefillWithoutPicker"];
/// Reasons that compare with the name of the model.
const OF_THE_NAME: [&str; 2] = ["ServedNameReplaced", "ServedNameMissing"];

/// Returns warnings about the fields of each config that no service uses. They are no errors, because a service may override
/// the fields.
pub(super) fn findings(layers: &Layers<'_>, configs: &[&StoredManifest]) -> Vec<Finding> {
    let is_unused = |config: &&&StoredManifest| {
        let services = layers.scene.subjects.iter().map(|subject| &subject.service);
        let is_used =
            services.flat_map(|service| &service.spec.base_refs).any(|base| base.name == config.name());
        // Which presets go together is known to the controller only.
        !is_used && !preset::shipped().any(|name| config.name().ends_with(name))
    };
    configs.iter().filter(is_unused).flat_map(|config| of_config(layers, config)).collect()
}

fn of_config(layers: &Layers<'_>, config: &StoredManifest) -> Vec<Finding> {
    let Some(document) = service(config) else { return Vec::new() };
    let Ok(service) = serde_json::from_value(document.object.clone()) else { return Vec::new() };
    let namespace = config.namespace.as_deref();
    let (service, name) = (completed(service), ObjectName::of(&document, namespace));
    let mut findings = layers.check(&document, &service, &name, &layers.scene.plan(&service));
    // What is said about the service, a person cannot mend in the config.
    findings.retain(|finding| {
        finding.file != SOURCE
            && finding.severity != Severity::Note
            && !OF_THE_WHOLE.contains(&finding.reason.as_str())
            && (has(config, "/spec/model/name") || !OF_THE_NAME.contains(&finding.reason.as_str()))
    });
    for finding in &mut findings {
        finding.severity = Severity::Warning;
        finding.object = Some(ObjectName::of(&config.document, namespace));
    }
    findings
}

fn has(config: &StoredManifest, pointer: &str) -> bool {
    config.object.pointer(pointer).is_some_and(|value| !matches!(value.as_str(), Some("")))
}

/// Returns the manifest of a service with this config.
fn service(config: &StoredManifest) -> Option<Document> {
    let mut spec = json!({"baseRefs": [{"name": config.name()}]});
    if !has(config, "/spec/model/uri") {
        spec["model"] = json!({"uri": MODEL});
    }
    if has(config, "/spec/router") {
        spec["router"] = json!({"route": {}, "gateway": {}});
    }
    let object = json!({
        "apiVersion": API_VERSION, "kind": "LLMInferenceService",
        "metadata": {"name": config.name(), "namespace": &*config.namespace}, "spec": spec,
    });
    longboat_manifest::parse(SOURCE, &object.to_string()).ok()?.pop()
}
