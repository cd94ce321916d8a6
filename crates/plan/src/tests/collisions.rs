//! Cluster-scoped children whose usual name another service or somebody else has.

use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
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

    // Each deletes only its own. The other keeps its name.
    let deleted = world.services.remove(&Key::new(Namespace("a"), Name("b-c"))).unwrap();
    let removed = crate::finalization(&deleted, &world.snapshot).unwrap().remove;
    let removed: Vec<_> = removed.iter().map(|object| &*object.key.name).collect();
    assert_eq!(removed, ["a-b-c-epp-auth-rb"]);
    world.snapshot.cluster_role_bindings.remove(Namespace(""), Name("a-b-c-epp-auth-rb"));
    world.settle();
    assert_eq!(subjects(&world), [second]);
    let last = &world.services[&Key::new(Namespace("a-b"), Name("c"))];
    let removed = crate::finalization(last, &world.snapshot).unwrap().remove;
    assert_eq!(removed.len(), 1, "{removed:?}");
}

#[test]
fn the_binding_of_somebody_else_stays_as_it_is() {
    let mut world = world(&presets_as_layers(), false);
    let (scope, usual) = (Namespace(""), Name("a-c-epp-auth-rb"));
    let theirs = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": &*usual},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}],
    });
    world.store(serde_json::from_value::<ClusterRoleBinding>(theirs).unwrap());
    let before = world.snapshot.cluster_role_bindings.get(scope, usual).cloned();
    world.put(service("a", "c"), "a");
    world.settle();
    assert_eq!(world.snapshot.cluster_role_bindings.get(scope, usual).cloned(), before);
    let own = |world: &super::cluster_model::ClusterModel| -> Vec<String> {
        let last = &world.services[&Key::new(Namespace("a"), Name("c"))];
        let removed = crate::finalization(last, &world.snapshot).unwrap().remove;
        removed.iter().map(|object| object.key.name.to_string()).collect()
    };
    let bound = own(&world);
    assert!(bound.len() == 1 && bound[0].starts_with("a-c-epp-auth-rb:"), "{bound:?}");

    // A controller that starts again watches only objects with our label, and does not see theirs.
    world.snapshot.cluster_role_bindings.remove(scope, usual);
    world.settle();
    assert_eq!(own(&world), bound);
    assert!(world.snapshot.cluster_role_bindings.get(scope, usual).is_none());
}
