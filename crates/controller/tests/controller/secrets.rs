//! Which Secrets are read completely, and when.

use http::Method;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use longboat_api::conditions::Condition;
use longboat_controller::Args;
use longboat_key::Namespace;
use longboat_testkit::TestCluster;
use serde_json::{Value, json};

use crate::{
    setup::{QUIET, Running, condition, deployments, service, world},
    tap::{SentRequest, Tap},
};

/// Creates an account whose Secret has a token for the hub, and another Secret.
async fn credentials(world: &TestCluster) {
    for name in ["hub", "others"] {
        world
            .apply(json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "ns"},
                "stringData": {"HF_TOKEN": "a"},
            }))
            .await;
    }
    world
        .apply(json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "ns"},
            "secrets": [{"name": "hub"}],
        }))
        .await;
}

/// The number of reads of one Secret that is not our certificate.
fn reads(log: &[SentRequest], name: &str) -> usize {
    let path = format!("/secrets/{name}");
    log.iter()
        .filter(|asked| asked.method == "GET" && asked.uri.split('?').next().unwrap().ends_with(&path))
        .count()
}

async fn token_is_set(world: &TestCluster, service: &str) {
    let api = deployments(world.client());
    let name = format!("{service}-kserve");
    world
        .eventually("a download with the token", async || {
            let pod = api.get_opt(&name).await.unwrap()?.spec?.template.spec?;
            let containers = pod.init_containers.unwrap_or_default();
            let mut env = containers.into_iter().flat_map(|container| container.env.unwrap_or_default());
            env.any(|variable| variable.name == "HF_TOKEN").then_some(())
        })
        .await;
}

#[tokio::test]
async fn credentials_are_read_by_name_once_for_all_services_and_again_when_they_change() {
    let world = world().await;
    credentials(&world).await;
    let tap = Tap::new();
    let running = Running::with_client(Args::default(), tap.client(&world));
    for name in ["one", "two"] {
        world.apply(service(name, json!({}))).await;
        token_is_set(&world, name).await;
        world.settle(QUIET).await;
    }
    assert_eq!((reads(&tap.log(), "hub"), reads(&tap.log(), "others")), (1, 0));

    let secrets: Api<Secret> = Api::namespaced(world.client(), "ns");
    let token = json!({"data": {"HF_TOKEN": null}, "stringData": {"MODELSCOPE_API_TOKEN": "b"}});
    secrets.patch("hub", &PatchParams::default(), &Patch::Merge(token)).await.unwrap();
    let api = deployments(world.client());
    world
        .eventually("a download with the other token", async || {
            let text = serde_json::to_string(&api.get("two-kserve").await.unwrap()).unwrap();
            text.contains("MODELSCOPE_API_TOKEN")
        })
        .await;
    world.settle(QUIET).await;
    let again = reads(&tap.log(), "hub");
    // Both services may read it at the same moment.
    assert!((2..=3).contains(&again), "{again} reads");
    running.stop().await;
}

#[tokio::test]
async fn a_secret_that_may_not_be_read_is_a_problem_of_the_workload_that_needs_it() {
    let world = world().await;
    credentials(&world).await;
    let tap = Tap::new();
    tap.forbid(Some((Method::GET, "/secrets/hub")));
    let running = Running::with_client(Args::default(), tap.client(&world));
    world.apply(service("llm", json!({}))).await;
    let refused = condition(&world, "llm", "MainWorkloadReady", Condition::is_false).await;
    assert_eq!(refused.reason, "ReconcileSingleNodeWorkloadError");
    assert!(
        refused.message.contains("failed to read Secret ns/hub: a policy says no"),
        "{}",
        refused.message
    );
    running.stop().await;
}

#[tokio::test]
async fn lists_and_watches_of_secrets_ask_for_certificates_of_ours_or_for_metadata() {
    let world = world().await;
    credentials(&world).await;
    let tap = Tap::new();
    let running = Running::with_client(Args::default(), tap.client(&world));
    world.apply(service("llm", json!({}))).await;
    token_is_set(&world, "llm").await;
    let log = tap.log();
    let of_many: Vec<&SentRequest> = log
        .iter()
        .filter(|asked| asked.method == "GET" && asked.uri.split('?').next().unwrap().ends_with("/secrets"))
        .collect();
    let is_metadata = |asked: &SentRequest| asked.accept.contains("as=PartialObjectMetadata");
    let is_ours = |asked: &SentRequest| asked.uri.contains("part-of%3Dllminferenceservice");
    assert!(of_many.iter().any(|asked| is_metadata(asked)), "{of_many:#?}");
    for asked in of_many {
        assert!(is_metadata(asked) || is_ours(asked), "{asked:#?}");
    }
    running.stop().await;
}

#[tokio::test]
async fn where_secrets_are_closed_to_the_controller_a_service_says_so_and_is_not_begun() {
    let world = world().await;
    world.namespace("open").await;
    let tap = Tap::new();
    let args = Args {
        secret_namespaces: ["open", "kserve"].map(|one| Namespace(one).to_shared()).into(),
        ..Args::default()
    };
    let running = Running::with_client(args, tap.client(&world));
    world.apply(service("closed", json!({}))).await;
    let mut open = service("llm", json!({}));
    open["metadata"]["namespace"] = "open".into();
    world.apply(open).await;
    let why = condition(&world, "closed", "MainWorkloadReady", Condition::is_false).await;
    assert!(why.message.contains("may not use Secrets in namespace \"ns\""), "{}", why.message);
    let names = async || world.names::<Secret>("open").await;
    world.eventually("the certificate", async || names().await.len() == 1).await;
    assert!(world.names::<Secret>("ns").await.is_empty());
    let log = tap.log();
    let outside = log.iter().find(|asked| {
        let is_open =
            ["/namespaces/open/", "/namespaces/kserve/"].iter().any(|part| asked.uri.contains(part));
        asked.uri.contains("/secrets") && !is_open
    });
    assert!(outside.is_none(), "{outside:#?}");
    running.stop().await;
}

#[tokio::test]
async fn a_new_service_needs_one_certificate_that_names_its_address() {
    let world = world().await;
    let tap = Tap::new();
    let running = Running::with_client(Args::default(), tap.client(&world));
    world.apply(service("llm", json!({"router": {"route": {}, "gateway": {}, "scheduler": {}}}))).await;
    let api = deployments(world.client());
    world.eventually("the Deployment", async || api.get_opt("llm-kserve").await.unwrap()).await;
    world.settle(QUIET).await;
    let log = tap.log();
    let writes: Vec<&str> = log
        .iter()
        .filter(|asked| asked.method != "GET" && asked.uri.contains("/secrets"))
        .map(|asked| asked.method.as_str())
        .collect();
    assert_eq!(writes, ["POST"]);
    let body = log.iter().find(|asked| asked.method == "POST" && asked.uri.contains("/secrets")).unwrap();
    let secret: Value = serde_json::from_slice(&body.body).unwrap();
    assert_eq!(secret["type"], "kubernetes.io/tls");
    running.stop().await;
}
