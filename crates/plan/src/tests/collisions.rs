//! Services whose cluster-scoped children have the same usual name.

use longboat_key::{Key, Name, Namespace};
use serde_json::{Value, json};

use super::laws::{presets_as_layers, world};

fn service(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"model": {"uri": "hf://o/m"}, "router": {"scheduler": {}}},
    })
}

#[test]
fn two_services_never_share_a_cluster_role_binding_and_neither_overwrites_the_others() {
    let mut world = world(&presets_as_layers(), false);
    let subjects = |world: &super::cluster_model::ClusterModel| -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = (world.snapshot.cluster_role_bindings.iter())
            .map(|binding| {
                let subject = &binding.subjects.as_ref().unwrap()[0];
                (binding.metadata.name.clone().unwrap(), subject.namespace.clone().unwrap())
            })
            .collect();
        all.sort();
        all
    };
    let bound = |name: &str, namespace: &str| (name.to_owned(), namespace.to_owned());
    world.put(service("a", "b-c"), "a");
    world.settle();
    assert_eq!(subjects(&world), [bound("a-b-c-epp-auth-rb", "a")]);

    // `settle` fails if the services overwrite each other's objects for ever.
    world.put(service("a-b", "c"), "a-b");
    world.settle();
    let [first, second]: [(String, String); 2] = subjects(&world).try_into().unwrap();
    assert_eq!((first, second.1.as_str()), (bound("a-b-c-epp-auth-rb", "a"), "a-b"));
    assert!(second.0.starts_with("a-b-c-epp-auth-rb:"), "{}", second.0);

    // Each deletes only its own. The other then gets the usual name.
    let deleted = world.services.remove(&Key::new(Namespace("a"), Name("b-c"))).unwrap();
    let removed = crate::finalization(&deleted, &world.snapshot).unwrap().remove;
    let removed: Vec<_> = removed.iter().map(|object| &*object.key.name).collect();
    assert_eq!(removed, ["a-b-c-epp-auth-rb"]);
    world.snapshot.cluster_role_bindings.remove(Namespace(""), Name("a-b-c-epp-auth-rb"));
    world.settle();
    assert_eq!(subjects(&world), [bound("a-b-c-epp-auth-rb", "a-b")]);
    let last = &world.services[&Key::new(Namespace("a-b"), Name("c"))];
    let removed = crate::finalization(last, &world.snapshot).unwrap().remove;
    assert_eq!(removed.len(), 1, "{removed:?}");
}
