//! Checks whether the webhooks validate and convert objects.

use std::time::{Duration, SystemTime};

use k8s_openapi::{ByteString, api::admissionregistration::v1::WebhookClientConfig};
use longboat_api::names::WEBHOOK_SERVICE;

use crate::{
    facts::Facts,
    finding::{Cause, Finding},
    reinstall,
};

/// The names of our configurations. The mutating one has the first name. KServe's, for its other kinds, end alike.
pub(crate) const OURS: [&str; 2] =
    ["llminferenceservice.serving.kserve.io", "llminferenceserviceconfig.serving.kserve.io"];
/// Certificates that expire sooner are reported.
const EXPIRY_WARNING: Duration = Duration::from_hours(7 * 24);

pub(crate) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    if facts.local {
        return;
    }
    let install = format!(
        "{}: it registers the webhooks, and the controller then writes its CA into them",
        reinstall::command(facts, "")
    );
    if let Some(refused) = &facts.admission {
        let object = "Webhooks of LLMInferenceService".to_owned();
        let clients = clients(facts);
        // The API server names the address: `Post "https://NAME.NAMESPACE.svc:443/…": connection refused`.
        let mut services = clients.iter().filter_map(|(_, client)| client.service.as_ref());
        let called =
            services.find(|found| refused.contains(&format!("//{}.{}.svc", found.name, found.namespace)));
        let (namespace, name) = called
            .map_or((&*facts.snapshot.system_namespace, WEBHOOK_SERVICE), |found| {
                (found.namespace.as_str(), found.name.as_str())
            });
        let fix = format!(
            "run `kubectl get endpointslices -n {namespace} -l kubernetes.io/service-name={name}`, and read the log of the \
             controller"
        );
        let cause = format!("no service can be created: {refused}");
        findings.push(Cause::new("WebhookFails", cause, fix).broken(object));
    }
    if let Some(failed) = &facts.conversion {
        let cause = format!("services cannot be read as v1alpha1: {failed}");
        findings.push(
            Cause::new("ConversionFails", cause, &install)
                .broken("CustomResourceDefinition llminferenceservices.serving.kserve.io"),
        );
    }
    for name in OURS {
        if !facts.validating.iter().any(|found| found.metadata.name.as_deref() == Some(name)) {
            let cause = "the API server does not validate services, so mistakes appear only in the status";
            let object = format!("ValidatingWebhookConfiguration {name}");
            findings.push(Cause::new("WebhookMissing", cause, &install).broken(object));
        }
    }
    if facts.mutating.is_empty() {
        let cause = "the API server does not fill in defaults when it stores services";
        let object = format!("MutatingWebhookConfiguration {}", OURS[0]);
        findings.push(Cause::new("WebhookMissing", cause, &install).broken(object));
    }
    for (object, client) in clients(facts) {
        if let Some(cause) = untrusted(client) {
            findings.push(cause.broken(object));
        } else if let Some(cause) = ending(client) {
            findings.push(cause.warning_about(object));
        }
    }
}

/// The first client configuration of each object, because the same server serves all of its webhooks.
fn clients(facts: &Facts) -> Vec<(String, &WebhookClientConfig)> {
    let mutating = facts.mutating.iter().filter_map(|found| {
        let object = format!("MutatingWebhookConfiguration {}", found.metadata.name.as_deref()?);
        Some((object, &found.webhooks.as_ref()?.first()?.client_config))
    });
    let validating = facts.validating.iter().filter_map(|found| {
        let object = format!("ValidatingWebhookConfiguration {}", found.metadata.name.as_deref()?);
        Some((object, &found.webhooks.as_ref()?.first()?.client_config))
    });
    mutating.chain(validating).collect()
}

fn untrusted(client: &WebhookClientConfig) -> Option<Cause> {
    client.ca_bundle.as_ref().is_none_or(|ByteString(bytes)| bytes.is_empty()).then(|| {
        let cause = "caBundle is empty, so the API server does not trust the webhook";
        let fix =
            "check that the controller runs and has its rights, or use cert-manager with --webhook-cert-dir";
        Cause::new("WebhookUntrusted", cause, fix)
    })
}

fn ending(client: &WebhookClientConfig) -> Option<Cause> {
    let ByteString(bytes) = client.ca_bundle.as_ref()?;
    let all = longboat_tls::certificates(&String::from_utf8_lossy(bytes)).unwrap_or_default();
    let fix = "check that the controller runs: it renews its own CA. If cert-manager issues the CA, check its \
         Certificate";
    let Some(last) = all.iter().map(|found| found.validity.not_after).max() else {
        return Some(Cause::new("WebhookUntrusted", "caBundle holds no certificate", fix));
    };
    (last < SystemTime::now() + EXPIRY_WARNING).then(|| {
        Cause::new("CertificateEnds", "the CA of the webhooks expires within a week, or has expired", fix)
    })
}
