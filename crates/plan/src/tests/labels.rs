//! Which label counts if the metadata and the spec of a service set the same one.

use longboat_key::{Name, Namespace};
use serde_json::json;

use super::laws::{NAMESPACE, plain, settled};

/// In the reference, a Deployment and its pods share one map of labels, to which those of the spec are added last (the recording
/// `meta-spec-labels` shows that they reach the Deployment). Kueue reads the queue from the Deployment.
#[test]
fn labels_of_the_spec_win_on_the_deployment_and_on_its_pods() {
    let queue = "kueue.x-k8s.io/queue-name";
    let mut service = plain();
    service["metadata"]["labels"] = json!({queue: "of-the-metadata"});
    service["spec"]["labels"] = json!({queue: "of-the-spec"});
    service["spec"]["prefill"] = json!({});
    let world = settled(service);
    let queues = |name: &str| {
        let deployment = world.snapshot.deployments.get(Namespace(NAMESPACE), Name(name)).unwrap();
        let template = deployment.spec.as_ref().unwrap().template.metadata.as_ref().unwrap();
        [&deployment.metadata, template].map(|metadata| metadata.labels.as_ref().unwrap()[queue].clone())
    };
    assert_eq!(queues("llm-kserve"), ["of-the-spec", "of-the-spec"]);
    assert_eq!(
        queues("llm-kserve-prefill"),
        ["of-the-metadata", "of-the-metadata"],
        "prefill has labels of its own"
    );
}
