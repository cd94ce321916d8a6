//! The account that the model server's pods run with, for the credentials that hang on it.

use k8s_openapi::api::core::v1::{PodSpec, ServiceAccount};

use crate::context::Context;

/// The account named by the pod, which must exist; otherwise `default`, if that exists.
pub(super) fn of_pod<'a>(context: &Context<'a>, pod: &PodSpec) -> Result<Option<&'a ServiceAccount>, String> {
    let accounts = &context.snapshot.service_accounts;
    match pod.service_account_name.as_deref().filter(|name| !name.is_empty()) {
        None => Ok(accounts.get(context.namespace, "default")),
        Some(name) => accounts.get(context.namespace, name).map(Some).ok_or_else(|| {
            format!(
                "failed to fetch existing service account {}/{name}: ServiceAccount \"{name}\" not found",
                context.namespace
            )
        }),
    }
}
