//! Saying on the lease who leads, as client-go does: whoever runs `kubectl describe lease` sees when it changed hands.

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Event, EventSource, ObjectReference},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{Api, Client, api::PostParams};

use crate::{election::LEASE, error::text_of};

/// Writes that a candidate leads now, if the API server takes it: nothing depends on it.
pub(crate) async fn announce(client: Client, namespace: String, lease: ObjectMeta, identity: String) {
    let api: Api<Event> = Api::namespaced(client, &namespace);
    let event = event(&namespace, lease, &identity, Timestamp::now());
    if let Err(error) = api.create(&PostParams::default(), &event).await {
        tracing::debug!(lease = LEASE, error = %text_of(&error), "The event of who leads cannot be written.");
    }
}

/// The event. Its source is the candidate, as there is no better name for a process.
fn event(namespace: &str, lease: ObjectMeta, identity: &str, now: Timestamp) -> Event {
    let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{LEASE}.{:x}", now.as_nanosecond())),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(<Lease as k8s_openapi::Resource>::API_VERSION.to_owned()),
            kind: Some(<Lease as k8s_openapi::Resource>::KIND.to_owned()),
            name: Some(LEASE.to_owned()),
            namespace: Some(namespace.to_owned()),
            uid: lease.uid,
            resource_version: lease.resource_version,
            ..ObjectReference::default()
        },
        type_: Some("Normal".to_owned()),
        reason: Some("LeaderElection".to_owned()),
        message: Some(format!("{identity} became leader")),
        source: Some(EventSource { component: Some(identity.to_owned()), host: None }),
        reporting_component: Some(identity.to_owned()),
        first_timestamp: Some(Time(second)),
        last_timestamp: Some(Time(second)),
        count: Some(1),
        ..Event::default()
    }
}
