//! Which pods the node takes.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::test_node::{TestNode, condition};

fn selecting(placement: &Value) -> Value {
    let mut spec = json!({"terminationGracePeriodSeconds": 1, "containers": [{
        "name": "main", "image": "longboat", "command": ["sleep", "1000"],
    }]});
    spec.as_object_mut().unwrap().extend(placement.as_object().unwrap().clone());
    spec
}

fn runs(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

fn waits(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|found| {
        let message = found.message.as_deref().unwrap_or_default();
        found.type_ == "PodScheduled" && message.contains("didn't match Pod's node affinity/selector")
    })
}

async fn label(world: &TestNode, labels: &Value) {
    let nodes: Api<Node> = Api::all(world.client.clone());
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    nodes.patch("longboat-local", &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_stands_in_for_every_node_that_pods_ask_for() {
    let world = TestNode::with(|options| {
        options.labels.insert("zone".to_owned(), "a".to_owned());
    })
    .await;
    let spread = json!([{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]);
    for (name, placement) in [
        (
            "decode",
            json!({"nodeSelector": {"gpu": "H100", "zone": "a"}, "topologySpreadConstraints": spread}),
        ),
        // One node cannot have both labels, but a cluster has nodes with each.
        (
            "prefill",
            json!({"nodeSelector": {"gpu": "A100"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]}),
        ),
        ("picker", json!({})),
    ] {
        world.pod(name, selecting(&placement)).await;
        world.until_pod(name, "running", runs).await;
    }
    let nodes: Api<Node> = Api::all(world.client.clone());
    let node = nodes.get("longboat-local").await.unwrap();
    let has = |key: &str| node.labels().get(key).map(String::as_str);
    assert_eq!([has("gpu"), has("zone"), has("rack")], [Some("H100"), Some("a"), Some("longboat-local")]);
    let taints = node.spec.unwrap().taints.unwrap_or_default();
    assert!(taints.is_empty(), "pods without the toleration run here, too: {taints:?}");
    let reported: Vec<String> = world.node().stood_in_for().borrow().iter().cloned().collect();
    assert_eq!(reported, ["gpu=A100", "gpu=H100", "rack=longboat-local", "taint nvidia.com/gpu:NoSchedule"]);

    // A label that a person sets decides, whenever it is set.
    world.pod("elsewhere", selecting(&json!({"nodeSelector": {"zone": "b"}}))).await;
    world.until_pod("elsewhere", "waiting", waits).await;
    label(&world, &json!({"gpu": "T4"})).await;
    world.pod("late", selecting(&json!({"nodeSelector": {"gpu": "H100"}}))).await;
    world.until_pod("late", "waiting", waits).await;
    label(&world, &json!({"gpu": "H100", "zone": "b"})).await;
    world.until_pod("elsewhere", "running", runs).await;
    world.until_pod("late", "running", runs).await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_scheduling_lets_pods_wait_for_the_labels_that_they_select() {
    let world = TestNode::with(|options| options.strict_scheduling = true).await;
    world.pod("p", selecting(&json!({"nodeSelector": {"gpu": "H100"}}))).await;
    world.until_pod("p", "waiting", waits).await;
    label(&world, &json!({"gpu": "H100"})).await;
    world.until_pod("p", "running", runs).await;
    assert!(world.node().stood_in_for().borrow().is_empty());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_node_lets_pods_wait_until_others_have_ended() {
    let world = TestNode::with(|options| options.strict_scheduling = true).await;
    let names = ["a", "b", "c", "d"];
    for name in names {
        world.pod(name, selecting(&json!({"nodeSelector": {"open": "yes"}}))).await;
    }
    let nodes: Api<Node> = Api::all(world.client.clone());
    let patch = Patch::Merge(json!({"status": {"allocatable": {"pods": "2"}}}));
    nodes.patch_status("longboat-local", &PatchParams::default(), &patch).await.unwrap();
    // The pods wait for the label, which the node gets after the limit.
    label(&world, &json!({"open": "yes"})).await;
    for name in names {
        world.until_pod(name, "running, or without a place", |pod| runs(pod) || is_crowded_out(pod)).await;
    }
    let mut pods = Vec::new();
    for name in names {
        pods.push((name, world.get_pod(name).await));
    }
    let mut crowded_out = Vec::new();
    // All pods were read before the first one is deleted, because another one takes its place at once.
    for (name, pod) in pods {
        if runs(&pod) {
            world.delete_pod(name).await;
        } else {
            let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
            assert!(is_crowded_out(&pod) && bound.is_none(), "{name}: {pod:#?}");
            crowded_out.push(name);
        }
    }
    assert_eq!(crowded_out.len(), 2, "{crowded_out:?}");
    for name in crowded_out {
        world.until_pod(name, "running", runs).await;
    }
    world.end().await;
}

fn is_crowded_out(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|found| {
        let message = "0/1 nodes are available: 1 Too many pods. preemption: 0/1 nodes are available: 1 No preemption \
                       victims found for incoming pod.";
        found.type_ == "PodScheduled" && found.message.as_deref() == Some(message)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_deleted_registers_again_and_takes_pods() {
    let world = TestNode::with(|options| {
        options.labels.insert("zone".to_owned(), "a".to_owned());
    })
    .await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    let before = nodes.get("longboat-local").await.unwrap();
    for name in ["first", "second"] {
        nodes.delete("longboat-local", &DeleteParams::default()).await.unwrap();
        world.pod(name, selecting(&json!({"nodeSelector": {"zone": "a"}}))).await;
        world.until_pod(name, "running", runs).await;
    }
    let after = nodes.get("longboat-local").await.unwrap();
    assert_ne!(after.uid(), before.uid());
    assert_eq!(after.labels(), before.labels());
    let ready = after.status.unwrap().conditions.unwrap();
    assert!(ready.iter().any(|found| found.type_ == "Ready" && found.status == "True"), "{ready:?}");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_registers_again_shows_the_labels_that_it_pretends_to_have() {
    let world = TestNode::start().await;
    world.pod("pod", selecting(&json!({"nodeSelector": {"gpu": "A100"}}))).await;
    world.until_pod("pod", "running", runs).await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    let before = nodes.get("longboat-local").await.unwrap();
    nodes.delete("longboat-local", &DeleteParams::default()).await.unwrap();
    let labelled = async {
        loop {
            let node = nodes.get_opt("longboat-local").await.unwrap();
            if let Some(node) =
                node.filter(|node| node.uid() != before.uid() && node.labels() == before.labels())
            {
                return node;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let after = tokio::time::timeout(Duration::from_mins(1), labelled).await.unwrap();
    assert_eq!(after.annotations(), before.annotations());
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_a_taint_evicts_has_a_condition_that_says_so() {
    let world = TestNode::start().await;
    world.pod("pod", selecting(&json!({}))).await;
    world.until_pod("pod", "running", runs).await;
    // The finalizer keeps the deleted pod.
    let keep = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/keep"]}}));
    world.api::<Pod>().patch("pod", &PatchParams::default(), &keep).await.unwrap();
    let nodes: Api<Node> = Api::all(world.client.clone());
    let taint = Patch::Merge(json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}));
    nodes.patch("longboat-local", &PatchParams::default(), &taint).await.unwrap();
    let is_evicted = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    let pod = world.until_pod("pod", "evicted", is_evicted).await;
    assert_eq!(condition(&pod, "DisruptionTarget"), "True");
    world.end().await;
}
