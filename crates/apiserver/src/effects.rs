//! Side effects of writes of some kinds in this server, beyond the stored object.

use serde_json::Value;

use crate::{allocation, bootstrap, kinds::Resource, state::State, status::ApiError, verbs::crds};

/// Applies the consequences of a write: registers and removes the resources of a definition, frees addresses, and removes a
/// definition whose last object is gone.
pub(crate) fn after_write(state: &State, resource: &Resource, before: Option<&Value>, after: Option<&Value>) {
    if let Some(custom) = resource.custom() {
        if after.is_none() {
            crds::instance_gone(state, &custom.crd_name);
        }
    } else if allocation::is_service(resource) {
        allocation::release(state, before, after);
    } else if resource.plural == "customresourcedefinitions" {
        crds::changed(state, before, after);
    }
}

/// Refuses the deletion of objects that must stay.
pub(crate) fn check_deletion(resource: &Resource, name: &str) -> Result<(), ApiError> {
    let is_namespace = resource.group.is_empty() && resource.plural == "namespaces";
    if is_namespace && bootstrap::NAMESPACES.contains(&name) && name != "kube-node-lease" {
        return Err(ApiError::forbidden(resource.about(name), "this namespace may not be deleted"));
    }
    Ok(())
}
