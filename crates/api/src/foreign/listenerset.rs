//! ListenerSet, `gateway.networking.k8s.io/v1`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::gateway::{Listener, ListenerStatus};
use super::reference::ParentReference;
use crate::resource::kind;
use crate::wire::go_struct;

kind! {
    /// A ListenerSet: listeners that are added to a Gateway.
    pub struct ListenerSet: "gateway.networking.k8s.io", "v1", "listenersets", Namespaced {
        spec: ListenerSetSpec,
        status: ListenerSetStatus,
    }
}

go_struct! {
    /// The Gateway, and the listeners that are added to it.
    pub struct ListenerSetSpec {
        /// The Gateway.
        always pub parent_ref: ParentReference,

        /// What to listen on.
        always pub listeners: Vec<Listener>,
    }

    /// What was observed of a ListenerSet.
    pub struct ListenerSetStatus {
        /// Accepted, Programmed.
        pub conditions: Vec<Condition>,

        /// State of each listener.
        pub listeners: Vec<ListenerStatus>,
    }
}
