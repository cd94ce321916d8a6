//! Another mutating webhook that changes our children.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use kube::api::{Patch, PatchParams};
use longboat_apiserver::admission::{Admission, AdmissionAnswer, AdmissionRequest};
use serde_json::json;

use crate::setup::{QUIET, Running, deployments, service, services, world};

/// Adds a toleration to the pods of every Deployment, and changes its number of replicas.
struct Meddler;

impl Admission for Meddler {
    fn handles(&self, group: &str, resource: &str) -> bool {
        (group, resource) == ("apps", "deployments")
    }

    fn mutate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        async move {
            let object = request.object.map(|mut object| {
                object["spec"]["replicas"] = json!(7);
                let pod = &mut object["spec"]["template"]["spec"];
                pod["tolerations"] = json!([{"key": "rented", "operator": "Exists"}]);
                object
            });
            AdmissionAnswer { object, ..AdmissionAnswer::default() }
        }
        .boxed()
    }

    fn validate(&self, _: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer> {
        async { AdmissionAnswer::default() }.boxed()
    }
}

#[tokio::test]
async fn what_it_adds_is_not_fought_over_and_drift_is_still_put_right() {
    let world = world().await;
    world.server.add_admission(Arc::new(Meddler));
    let running = Running::start(&world);
    world.apply(service("llm", json!({}))).await;
    let api = deployments(world.client());
    let made = world.eventually("the deployment", async || api.get_opt("llm-kserve").await.unwrap()).await;
    assert_eq!(made.spec.unwrap().replicas, Some(7));
    world.settle(QUIET).await;
    let writes = running.faults.writes();
    world.make_available("ns").await;
    let touch = Patch::Merge(json!({"metadata": {"annotations": {"somebody": "else"}}}));
    services(world.client()).patch("llm", &PatchParams::default(), &touch).await.unwrap();
    world.settle(QUIET).await;
    // The other write is the status, which becomes ready.
    assert!(running.faults.writes() <= writes + 2, "{} writes", running.faults.writes() - writes);

    let drift = json!({"spec": {"template": {"spec": {"hostNetwork": true}}}});
    api.patch("llm-kserve", &PatchParams::default(), &Patch::Merge(drift)).await.unwrap();
    world
        .eventually("the pods are as planned", async || {
            let pod = api.get("llm-kserve").await.unwrap().spec?.template.spec?;
            (pod.host_network != Some(true)).then_some(())
        })
        .await;

    let after = running.faults.writes();
    running.stop().await;
    let running = Running::start(&world);
    world.settle(QUIET).await;
    // A new process tries once, and learns that the write changes nothing.
    assert!(running.faults.writes() <= 1, "{after} before, {} after", running.faults.writes());
}

#[tokio::test]
async fn what_it_adds_is_not_fought_over_after_a_conflict_either() {
    let world = world().await;
    world.server.add_admission(Arc::new(Meddler));
    let running = Running::start(&world);
    world.apply(service("llm", json!({}))).await;
    let api = deployments(world.client());
    world.eventually("the deployment", async || api.get_opt("llm-kserve").await.unwrap()).await;
    world.settle(QUIET).await;
    let updates = || {
        let log = running.faults.log();
        log.iter().filter(|write| write.method == "PUT" && write.path.ends_with("/llm-kserve")).count()
    };
    let before = updates();
    running.faults.conflict(1);
    let container = json!([{"name": "main", "env": [{"name": "A", "value": "B"}]}]);
    let edit = json!({"spec": {"template": {"containers": container}}});
    services(world.client()).patch("llm", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    world.settle(QUIET).await;
    assert_eq!(updates() - before, 1);
}
