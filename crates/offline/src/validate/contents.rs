//! Findings about objects whose content Longboat reads: API keys, the platform's settings, and annotations of autoscalers.

use k8s_openapi::api::core::v1::Secret;
use longboat_api::names;
use longboat_autoscale::METRIC_ANNOTATION_PREFIX;
use longboat_compose::{Platform, misspelt_keys};
use longboat_key::Key;
use longboat_manifest::Document;

use crate::{
    finding::{Finding, ObjectName, Source},
    settings::{Settings, texts},
    stored::StoredManifest,
};

/// Returns what is wrong with the content of an object.
pub(super) fn findings(document: &Document, name: &ObjectName, settings: &Settings) -> Vec<Finding> {
    match document.kind() {
        "ConfigMap"
            if *name.name == *names::PLATFORM_CONFIG_MAP
                && *name.namespace == *settings.system_namespace.as_deref().as_str() =>
        {
            platform(document, name, settings)
        }
        "HorizontalPodAutoscaler" | "ScaledObject" => given_metrics(document, name),
        _ => Vec::new(),
    }
}

/// What the gateway would say about the Secrets with API keys.
pub(super) fn api_keys(sound: &[StoredManifest]) -> Vec<Finding> {
    let secrets: Vec<(ObjectName, &Document, Secret)> = sound
        .iter()
        .filter(|one| one.document.kind() == "Secret")
        .filter_map(|one| {
            let mut secret: Secret = serde_json::from_value(one.document.object.clone()).ok()?;
            let name = one.object_name();
            secret.metadata.namespace = Some(name.namespace.clone());
            Some((name, &one.document, secret))
        })
        .collect();
    let problems = longboat_gateway::api_key_problems(secrets.iter().map(|(_, _, secret)| secret.clone()));
    let of_secret = |(name, document, secret): &(ObjectName, &Document, Secret)| {
        let problem = problems.get(&Key::of(secret))?;
        let field = ["stringData", "data"].into_iter().find(|field| document.object.get(*field).is_some());
        let finding = Finding::at(document, name, field.unwrap_or("metadata.labels"), Source::Plan);
        Some(finding.error("ApiKeyRefused", format!("no gateway accepts this API key: {problem}")))
    };
    secrets.iter().filter_map(of_secret).collect()
}

/// Returns an error for each PriorityClass that is to be the default beside another one.
pub(super) fn further_defaults(sound: &[StoredManifest]) -> Vec<Finding> {
    let is_default =
        |one: &&StoredManifest| one.document.kind() == "PriorityClass" && one.object["globalDefault"] == true;
    let mut defaults = sound.iter().filter(is_default);
    let Some(first) = defaults.next() else { return Vec::new() };
    let refused = |one: &StoredManifest| {
        let why = format!(
            "PriorityClass {} is already marked as default. Only one default can exist",
            first.name()
        );
        Finding::at(&one.document, &one.object_name(), "globalDefault", Source::Schema)
            .error("Forbidden", why)
    };
    defaults.map(refused).collect()
}

/// Annotations that `up` cannot take as values of metrics.
fn given_metrics(document: &Document, name: &ObjectName) -> Vec<Finding> {
    let annotations = texts(&document.object["metadata"]["annotations"]);
    let refused = longboat_autoscale::annotated_metrics(&annotations).filter_map(|(metric, given)| {
        let path = format!("metadata.annotations[{METRIC_ANNOTATION_PREFIX}{metric}]");
        let message = format!("{}: `longboat up` cannot scale by it", given.err()?);
        Some(Finding::at(document, name, &path, Source::Plan).warning("MetricRefused", message))
    });
    refused.collect()
}

/// What the controller would say about its settings, and keys that it would not read.
fn platform(document: &Document, name: &ObjectName, settings: &Settings) -> Vec<Finding> {
    let data = texts(&document.object["data"]);
    let error = Platform::parse(&data, settings.system_namespace.as_deref()).err().map(|error| {
        let section = error.section().filter(|section| data.contains_key(*section));
        let path = section.map_or_else(|| "data".to_owned(), |section| format!("data.{section}"));
        let message = format!("no service can be composed with these settings: {error}");
        Finding::at(document, name, &path, Source::Plan).error("PlatformSettings", message)
    });
    let mut findings: Vec<Finding> = error.into_iter().collect();
    for key in misspelt_keys(&data) {
        let path = format!("data.{}", key.section);
        let hint = format!("did you mean `{}`?", key.meant);
        if let Some(error) = findings.iter_mut().find(|finding| finding.path == path) {
            error.hint.get_or_insert(hint);
            continue;
        }
        let message = match key.field {
            Some(field) => format!("has the key {field:?}, which nobody reads"),
            None => "is a key that nobody reads".to_owned(),
        };
        let finding = Finding::at(document, name, &path, Source::Plan);
        findings.push(finding.warning("UnknownSetting", message).with_hint(hint));
    }
    findings
}
