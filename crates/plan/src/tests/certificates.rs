//! The key of a service's certificate.

use k8s_openapi::{ByteString, jiff::SignedDuration};
use longboat_key::{Name, Namespace};
use serde_json::json;

use super::{
    cluster_model::ClusterModel,
    composing,
    laws::{NAMESPACE, plain, presets_as_layers, world},
};

/// The reasons for which certificates are issued, and whether the key stays.
fn issued(world: &ClusterModel) -> Vec<(String, bool)> {
    let service = world.services.values().next().unwrap();
    let spec = composing::compose(world, service).spec.unwrap();
    let requests = crate::children(service, &spec, &world.snapshot).unwrap().certificates;
    let live = world.snapshot.secrets.get(Namespace(NAMESPACE), Name("llm-kserve-self-signed-certs"));
    let live_key: Option<ByteString> = live.and_then(|live| live.data.as_ref()?.get("tls.key").cloned());
    requests
        .into_iter()
        .map(|request| (request.reason, request.key.is_some() && request.key == live_key))
        .collect()
}

#[test]
fn a_certificate_for_further_addresses_keeps_its_key_and_one_that_is_due_does_not() {
    let mut world = world(&presets_as_layers(), true);
    world.put(plain(), NAMESPACE);
    assert_eq!(issued(&world), [("there is no certificate yet".to_owned(), false)]);
    world.settle();
    assert_eq!(issued(&world), []);

    world.put(
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "llm-1", "labels": {
            "app.kubernetes.io/name": "llm", "app.kubernetes.io/part-of": "llminferenceservice",
            "app.kubernetes.io/component": "llminferenceservice-workload"}},
            "status": {"podIP": "10.0.0.9"}}),
        NAMESPACE,
    );
    assert_eq!(issued(&world), [("it does not cover 10.0.0.9".to_owned(), true)]);

    world.snapshot.now = world.snapshot.now.checked_add(SignedDuration::from_hours(9 * 365 * 24)).unwrap();
    assert_eq!(issued(&world), [("it is due for replacement".to_owned(), false)]);
}

#[test]
fn a_certificate_of_the_future_is_replaced() {
    let mut world = world(&presets_as_layers(), true);
    world.put(plain(), NAMESPACE);
    world.settle();
    // The certificates of these tests are valid from 1975 on.
    world.snapshot.now = "1974-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(issued(&world), [("it is not valid before 1975-01-01T00:00:00Z".to_owned(), false)]);
}
