//! The service account of the picker.

use k8s_openapi::{api::core::v1::ServiceAccount, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use longboat_api::{labels::component, v1alpha2::SchedulerSpec};
use longboat_key::Name;

use crate::{context::Context, draft::Draft, labels, names, workload::account::add_managed};

/// Adds the managed account to the plan and returns it, unless the template names another one, which must exist.
///
/// Pull secrets come from the account of the model server, or from `default`: if the pods can pull one image of the service,
/// they should be able to pull the other.
pub(super) fn plan(
    context: &Context,
    scheduler: &SchedulerSpec,
    draft: &mut Draft,
) -> Result<ServiceAccount, String> {
    let accounts = &context.snapshot.service_accounts;
    let managed = names::scheduler_account(context.name);
    let template = scheduler.template.as_ref();
    let named = template.and_then(|pod| pod.service_account_name.as_deref()).filter(|name| !name.is_empty());
    if let Some(name) = named.filter(|name| *name != managed) {
        return accounts.get(context.namespace, Name(name)).cloned().ok_or_else(|| {
            format!(
                "failed to create expected scheduler service account: failed to fetch existing scheduler service account \
                 {}/{name}: ServiceAccount \"{name}\" not found",
                context.namespace
            )
        });
    }
    let of_workload =
        context.spec.workload.template.as_ref().and_then(|pod| pod.service_account_name.as_deref());
    let (source, annotations) = match of_workload.filter(|name| !name.is_empty()) {
        Some(name) => {
            let source = accounts.get(context.namespace, Name(name));
            (source, source.and_then(|account| account.metadata.annotations.clone()))
        }
        None => (accounts.get(context.namespace, Name("default")), None),
    };
    let metadata = ObjectMeta {
        annotations,
        ..context.child_metadata(managed, labels::of(component::SCHEDULER, context.name))
    };
    add_managed(context, draft, metadata, source)
}
