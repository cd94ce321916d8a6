//! At rest, changes without a meaning lead to no write. Also counts the writes until the world is at rest.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use longboat_testkit::{Faults, TestCluster, Watching, Write};
use serde_json::{Value, json};

use super::{
    scene::{self, KINDS, Trial, settle, stage, started},
    topology::Topology,
};

/// Much longer than the longest delay before a retry.
const LONG: Duration = Duration::from_mins(20);

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_that_means_nothing_leads_to_a_write() {
    let world = stage().await;
    for topology in &Topology::all() {
        let mut running = started(&world, Faults::default()).await;
        let trial = Trial::new(&world, topology, "trial-rest", "at rest");
        trial.create().await;
        trial.rest(&mut running).await;
        trial.become_ready(&mut running).await;
        let before = running.faults.log();
        tokio::time::sleep(LONG).await;
        assert_eq!(running.faults.log()[before.len()..], [], "{}: time passes", topology.name);
        for touched in touch_all(&world, &trial.namespace, "once").await {
            assert_eq!(running.faults.log()[before.len()..], [], "{}: {touched} is touched", topology.name);
        }
        running.stop().await;

        // After a restart, the watches lose events, so they list everything repeatedly.
        let faults = Faults::default();
        faults.watch(Watching::Lost);
        let mut running = started(&world, faults).await;
        settle(&world, &trial.what).await;
        assert_eq!(running.faults.log(), [], "{}: a restart", topology.name);
        touch_all(&world, &trial.namespace, "twice").await;
        settle(&world, &trial.what).await;
        assert_eq!(running.faults.log(), [], "{}: lists that bring nothing new", topology.name);
        trial.delete(&mut running).await;
        trial.forget().await;
        running.stop().await;
    }
}

/// Changes an annotation of every watched object, one by one. Returns the changed objects.
async fn touch_all(world: &TestCluster, namespace: &str, value: &str) -> Vec<String> {
    let mut touched = Vec::new();
    let here = KINDS.into_iter().map(|(version, kind)| (version, kind, namespace));
    let gateways = "gateway.networking.k8s.io/v1";
    let platform = [
        ("v1", "ConfigMap", "kserve"),
        ("serving.kserve.io/v1alpha2", "LLMInferenceServiceConfig", "kserve"),
        (gateways, "Gateway", "kserve"),
        (gateways, "Gateway", namespace),
        (gateways, "GatewayClass", ""),
    ];
    for (version, kind, within) in here.chain(platform) {
        let all = scene::of_kind(world, version, kind, within).await;
        let cluster = kind == "ClusterRoleBinding";
        let api = scene::api(world, version, kind, if cluster { "" } else { within });
        for object in all {
            let name = object["metadata"]["name"].as_str().unwrap();
            let patch = json!({"metadata": {"annotations": {"example.com/touched": value}}});
            api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
            touched.push(format!("{kind} {name}"));
        }
        settle(world, "touching").await;
    }
    touched
}

#[tokio::test(start_paused = true)]
async fn a_service_takes_its_children_a_finalizer_and_two_statuses_to_become_ready() {
    let world = stage().await;
    let mut running = started(&world, Faults::default()).await;
    for topology in &Topology::all() {
        let trial = Trial::new(&world, topology, "trial-count", "counted");
        let objects = topology.objects(&trial.namespace);
        let counted = |object: &&Value| KINDS.iter().any(|(_, kind)| object["kind"] == *kind);
        // The namespace's default account is counted too.
        let given = objects.iter().filter(counted).count() + 1;
        let (begun, dry_runs) = (running.faults.log().len(), running.faults.dry_runs());
        trial.create().await;
        trial.rest(&mut running).await;
        trial.become_ready(&mut running).await;
        let children = trial.picture().await.len() - given;
        let log = running.faults.log()[begun..].to_vec();
        let count = |wanted: &dyn Fn(&Write) -> bool| log.iter().filter(|write| wanted(write)).count();
        let event = |write: &Write| write.path.contains("/events");
        let created = count(&|write| write.method == "POST" && !event(write));
        let replaced = count(&|write| write.method == "PUT");
        let of_service = |write: &Write| write.path.contains("/llminferenceservices/");
        let statuses = count(&|write| of_service(write) && write.path.ends_with("/status"));
        let patched = count(&|write| of_service(write) && write.method == "PATCH") - statuses;
        let told = count(&|write| event(write) && write.method == "POST");
        let deleted = count(&|write| write.method == "DELETE");
        let services = topology.services().len();
        let line = format!(
            "{}: {children} children, {created} created, {replaced} replaced, {deleted} deleted, {patched} finalizers, \
             {statuses} statuses, {told} events, {} dry-runs",
            topology.name,
            running.faults.dry_runs() - dry_runs
        );
        say(&line);
        assert_eq!(running.faults.dry_runs(), dry_runs, "{line}");
        assert_eq!(created, children, "{line}: {log:#?}");
        assert_eq!(deleted, 0, "{line}: {log:#?}");
        assert_eq!(patched, services, "{line}: {log:#?}");
        // A member of a group writes its status more often: its weight depends on the other members.
        let statuses_allowed = if services > 1 { 4 * services } else { 2 };
        assert!(statuses <= statuses_allowed, "{line}: {log:#?}");
        // The certificate contains the addresses of Services, which the API server chooses.
        assert!(replaced <= services || services > 1, "{line}: {log:#?}");
        trial.delete(&mut running).await;
        trial.forget().await;
    }
    running.stop().await;
}

#[expect(clippy::print_stdout, reason = "the counts are what this test is read for")]
fn say(line: &str) {
    println!("{line}");
}
