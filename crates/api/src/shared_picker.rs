//! What the controller and the shared picker tell each other through the objects of a service.
//!
//! The controller labels the Deployment of a service's picker with [`PICKER`]. The shared picker watches Deployments with
//! [`SHARED`], and writes one EndpointSlice beside each, [`slice_name`], for the Service that [`SERVICE`] names.

use k8s_openapi::{Metadata, api::discovery::v1::EndpointSlice};

use crate::annotations;

/// The label on the Deployment of a picker: who picks in place of its pods. Services have an annotation of the same name.
pub const PICKER: &str = annotations::PICKER;
/// Value of [`PICKER`]: the picker that pools share.
pub const SHARED: &str = "shared";
/// Value of [`PICKER`]: its own pods do, as they did before it had another value.
pub const OWN: &str = "own";
/// On the Deployment of a picker: the Service that gateways call.
pub const SERVICE: &str = "longboat.dev/picker-service";

/// On an EndpointSlice of the shared picker: why the service keeps pods of its own.
pub const NEEDS_POD: &str = "longboat.dev/picker-needs-pod";
/// On an EndpointSlice of the shared picker: why it does not pick, or picks with a former configuration.
pub const PROBLEM: &str = "longboat.dev/picker-problem";
/// On an EndpointSlice of the shared picker: the limits for which it has refused requests lately, with their flags.
pub const LIMIT: &str = "longboat.dev/picker-limit";

/// The field manager of the slices, and their value of the label `endpointslice.kubernetes.io/managed-by`, by which other writers
/// of slices leave them alone.
pub const MANAGER: &str = "longboat-picker";
/// The name of the port of `ext_proc`, in the pods and Services of pickers and in their slices.
pub const EXT_PROC_PORT: &str = "grpc";

/// The label that says who writes an EndpointSlice.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label that names the Service of an EndpointSlice.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The name of the slice for a picker's Deployment.
pub fn slice_name(deployment: &str) -> String {
    format!("{deployment}-shared")
}

/// Whether a slice of the shared picker has an endpoint that is ready.
pub fn is_ready(slice: &EndpointSlice) -> bool {
    slice.endpoints.iter().any(|endpoint| {
        let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready);
        ready == Some(true) && !endpoint.addresses.is_empty()
    })
}

/// An annotation of a slice.
pub fn annotation<'a>(slice: &'a EndpointSlice, key: &str) -> Option<&'a str> {
    slice.metadata().annotations.as_ref()?.get(key).map(String::as_str)
}
