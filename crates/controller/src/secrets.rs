//! Reads the Secrets that are not ours and that reconciles need.
//!
//! The watch of Secrets is metadata-only, except for Secrets with our label, which hold the certificates that this controller
//! issues. The Secrets with a model's credentials are read by name when a service refers to them, once per version.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_key::{Key, Namespace};
use longboat_plan::{Problem, Snapshot};
use longboat_store::Version;
use longboat_watch::{has_code, text_of};

use crate::{
    args::Args,
    context::Context,
    error::ReconcileError,
    watch::kinds::{Rules, WatchedKind},
};

/// Why a service cannot be planned: a Secret that it needs could not be read.
#[derive(Debug)]
pub(crate) enum SecretError {
    /// The controller has no right to read the Secret. A retry would not help.
    Denied(Problem),
    /// The request failed.
    Failed(ReconcileError),
}

impl From<ReconcileError> for SecretError {
    fn from(error: ReconcileError) -> Self {
        Self::Failed(error)
    }
}

/// Adds Secrets to a snapshot. Returns whether any of them exists.
///
/// # Errors
/// If a Secret exists and cannot be read.
pub(crate) async fn add(
    context: &Context,
    spec: &LLMInferenceServiceSpec,
    missed: &[Key],
    snapshot: &mut Snapshot,
) -> Result<bool, SecretError> {
    let mut found = false;
    for key in missed {
        if let Some(secret) = content_of(context, spec, key).await? {
            snapshot.secrets.insert(secret);
            found = true;
        }
    }
    Ok(found)
}

/// Checks that the controller may use Secrets in a namespace, where every service stores its certificate in a Secret.
///
/// # Errors
/// If it may not.
pub(crate) fn check(context: &Context, namespace: Namespace<&str>) -> Result<(), SecretError> {
    match denial(&context.args, namespace) {
        Some(reason) => Err(SecretError::Denied(Problem::certificates(reason))),
        None => Ok(()),
    }
}

/// Returns why no service of a namespace can be served if the controller may not use Secrets there.
fn denial(args: &Args, namespace: Namespace<&str>) -> Option<String> {
    let is_open = args.secret_namespaces.is_empty()
        || args.secret_namespaces.iter().any(|one| one.as_deref() == namespace);
    (!is_open).then(|| {
        format!(
            "the controller may not use Secrets in namespace \"{namespace}\", and services keep their certificate in one: add the \
             namespace to `secretNamespaces` of the installation (flag --secret-namespace)"
        )
    })
}

/// Returns the Secret of that name, or `None` if it does not exist. Uses the cached content unless the Secret has changed.
async fn content_of(
    context: &Context,
    spec: &LLMInferenceServiceSpec,
    key: &Key,
) -> Result<Option<Arc<Secret>>, SecretError> {
    // A Secret of which the watch has not told yet counts as absent. Its event enqueues the services that looked for it.
    let Some(metadata) = context.caches.secret_metadata.metadata(key) else { return Ok(None) };
    if let Some(known) = context.secret_contents.get(key, &Version::of(&metadata)) {
        return Ok(Some(known));
    }
    let api = Secret::api(&context.client, Some(key.namespace.as_deref()));
    let found = api.get_opt(&key.name).await.map_err(|error| {
        if has_code(&error, 403) {
            let message = format!("failed to read Secret {key}: {}", text_of(&error));
            SecretError::Denied(Problem::main_half(spec, message))
        } else {
            SecretError::Failed(ReconcileError::request(format!("read Secret {key}"), error))
        }
    })?;
    let Some(mut found) = found else { return Ok(None) };
    found.slim();
    found.metadata.managed_fields = None;
    let found = Arc::new(found);
    context.secret_contents.set(key.clone(), Arc::clone(&found));
    Ok(Some(found))
}
