//! Assumptions about the Secrets from which a download gets its credentials.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::{PodSpec, Secret};
use longboat_api::{names::STORAGE_INITIALIZER, v1alpha2::LLMInferenceService};
use longboat_key::{Key, Namespace};
use longboat_plan::{Plan, Snapshot};

use super::metadata;
use crate::pods::templates;

/// The account of pods that name none. It exists in every namespace.
pub(crate) const DEFAULT_ACCOUNT: &str = "default";

/// Adds Secrets for credentials that planning looked up and that the snapshot lacks. Returns one sentence about each. If
/// there are any, planning goes further with the new snapshot.
pub(crate) fn missing(service: &LLMInferenceService, plan: &Plan, snapshot: &mut Snapshot) -> Vec<String> {
    let namespace = Namespace::of(&service.metadata);
    let annotated = annotated(service, snapshot).map(ToOwned::to_owned);
    let accounts = snapshot.service_accounts.in_namespace(namespace);
    let of_accounts = accounts
        .flat_map(|account| account.secrets.clone().unwrap_or_default())
        .filter_map(|reference| reference.name);
    let for_credentials: BTreeSet<String> = annotated.into_iter().chain(of_accounts).collect();
    // Planning looks up other Secrets too, such as the certificate that it is about to create.
    let names = |key: &&Key| key.namespace.as_deref() == namespace && for_credentials.contains(&*key.name);
    let mut assumed = Vec::new();
    for key in plan.missed_secrets.iter().filter(names) {
        let metadata = metadata(namespace, key.name.as_deref());
        snapshot.secrets.insert(Arc::new(Secret { metadata, ..Secret::default() }));
        assumed.push(format!(
            "Secret {key} exists; its keys are not known, so the variables and volumes that they give the download are left \
             out"
        ));
    }
    assumed
}

/// Returns a sentence about the account `default`, which is not in the manifests, if Secrets that it may have would give
/// credentials to a planned download. Models of the Hugging Face hub are public unless their owner says otherwise, so
/// their downloads are not mentioned.
pub(crate) fn of_default_account(
    service: &LLMInferenceService,
    plan: &Plan,
    snapshot: &Snapshot,
) -> Option<String> {
    let mut pods = templates(&plan.children).filter_map(|template| template.spec.as_ref());
    let namespace = Namespace::of(&service.metadata);
    (annotated(service, snapshot).is_none() && pods.any(|pod| uses_default_account(pod) && downloads(pod)))
        .then(|| format!("ServiceAccount {namespace}/{DEFAULT_ACCOUNT} has no Secrets with credentials"))
}

fn annotated<'a>(service: &'a LLMInferenceService, snapshot: &Snapshot) -> Option<&'a str> {
    let key = snapshot.platform.credentials.storage_secret_name_annotation.as_str();
    service.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn uses_default_account(pod: &PodSpec) -> bool {
    pod.service_account_name.as_deref().is_none_or(|name| name.is_empty() || name == DEFAULT_ACCOUNT)
}

fn downloads(pod: &PodSpec) -> bool {
    let containers = pod.init_containers.iter().flatten();
    let arguments = containers
        .filter(|container| container.name == STORAGE_INITIALIZER)
        .flat_map(|container| container.args.iter().flatten());
    arguments.into_iter().any(|argument| {
        ["s3://", "gs://", "http://", "https://"].iter().any(|scheme| argument.starts_with(scheme))
    })
}
