//! ListenerSet, `gateway.networking.k8s.io/v1`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use super::gateway::{Listener, ListenerStatus};
use super::reference::ParentReference;
use crate::resource::kind;
use crate::wire;

kind! {
    /// A ListenerSet: listeners that are added to a Gateway.
    pub struct ListenerSet: "gateway.networking.k8s.io", "v1", "listenersets", Namespaced {
        spec: ListenerSetSpec,
        status: ListenerSetStatus,
    }
}

/// The Gateway, and the listeners that are added to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerSetSpec {
    /// The Gateway.
    #[serde(deserialize_with = "wire::null_default")]
    pub parent_ref: ParentReference,

    /// What to listen on.
    #[serde(deserialize_with = "wire::null_default")]
    pub listeners: Vec<Listener>,
}

/// What was observed of a ListenerSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerSetStatus {
    /// Accepted, Programmed.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub conditions: Vec<Condition>,

    /// State of each listener.
    #[serde(deserialize_with = "wire::null_default", skip_serializing_if = "wire::is_default")]
    pub listeners: Vec<ListenerStatus>,
}
