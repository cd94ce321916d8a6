//! Configs that are created late, changed, used or deleted.

use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use longboat_api::conditions::Condition;
use longboat_testkit::Fault;
use serde_json::{Value, json};

use crate::setup::{
    QUIET, Running, condition, configs, deployments, install_presets, service, services, started, world,
};

fn config(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceServiceConfig",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": spec,
    })
}

fn with_image(image: &str) -> Value {
    json!({"template": {"containers": [{"name": "main", "image": image}]}})
}

#[tokio::test]
async fn a_config_that_appears_later_is_found() {
    let (world, _running) = started(service("llm", json!({"baseRefs": [{"name": "mine"}]}))).await;
    let missing = condition(&world, "llm", "PresetsCombined", Condition::is_false).await;
    assert_eq!(missing.reason, "ConfigNotFound");
    assert_eq!(missing.message, "LLMInferenceServiceConfig \"mine\" not found in namespaces [ns kserve]");
    world.apply(config("mine", &with_image("mine:1"))).await;
    condition(&world, "llm", "PresetsCombined", Condition::is_true).await;
    let api = deployments(world.client());
    let deployment =
        world.eventually("the Deployment", async || api.get_opt("llm-kserve").await.unwrap()).await;
    let containers = deployment.spec.unwrap().template.spec.unwrap().containers;
    assert!(containers.iter().any(|c| c.image.as_deref() == Some("mine:1")));
}

#[tokio::test]
async fn presets_that_appear_later_are_found() {
    let world = longboat_testkit::TestCluster::new(crate::setup::admission()).await;
    world.namespace("ns").await;
    let _running = Running::start(&world);
    world.apply(service("llm", json!({}))).await;
    condition(&world, "llm", "PresetsCombined", |c| c.reason == "ConfigNotFound").await;
    install_presets(&world).await;
    condition(&world, "llm", "PresetsCombined", Condition::is_true).await;
}

#[tokio::test]
async fn a_changed_config_reaches_its_services() {
    let (world, _running) = started(config("mine", &with_image("mine:1"))).await;
    world.apply(service("llm", json!({"baseRefs": [{"name": "mine"}]}))).await;
    let api = deployments(world.client());
    world.eventually("the Deployment", async || api.get_opt("llm-kserve").await.unwrap()).await;
    world.apply(config("mine", &with_image("mine:2"))).await;
    world
        .eventually("the new image", async || {
            let containers = api.get("llm-kserve").await.unwrap().spec?.template.spec?.containers;
            containers.iter().any(|c| c.image.as_deref() == Some("mine:2")).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_config_hears_of_its_users_although_an_answer_got_lost() {
    let (world, running) = started(config("mine", &with_image("mine:1"))).await;
    let api = configs(world.client(), "ns");
    let users = async || {
        let status = api.get("mine").await.unwrap().status.unwrap_or_default();
        status.referenced_by.into_iter().map(|user| user.name).collect::<Vec<_>>()
    };
    // The status may be any of the first writes, so each one fails in turn.
    for nth in 1.. {
        running.faults.plan(nth, Fault::Timeout);
        world.apply(service("llm", json!({"baseRefs": [{"name": "mine"}]}))).await;
        world.eventually("the user", async || users().await == ["llm"]).await;
        if !running.faults.has_happened() {
            // The writes are the finalizer, a child, the service's status and the config's status.
            assert!(nth > 4, "only {nth} writes led there");
            break;
        }
        services(world.client()).delete("llm", &DeleteParams::default()).await.unwrap();
        world
            .eventually("no service and no user", async || {
                let gone = services(world.client()).get_opt("llm").await.unwrap().is_none();
                gone && users().await.is_empty()
            })
            .await;
    }
    running.stop().await;
}

#[tokio::test]
async fn a_config_says_who_uses_it_and_stays_until_nobody_does() {
    let (world, _running) = started(config("mine", &with_image("mine:1"))).await;
    world.apply(service("llm", json!({"baseRefs": [{"name": "mine"}]}))).await;
    let api = configs(world.client(), "ns");
    world
        .eventually("the reference", async || {
            let status = api.get("mine").await.unwrap().status?;
            (status.referenced_by.len() == 1 && status.referenced_by[0].name == "llm").then_some(())
        })
        .await;
    api.delete("mine", &DeleteParams::default()).await.unwrap();
    world
        .eventually("deletion is blocked", async || {
            let status = api.get("mine").await.unwrap().status?;
            status.conditions.iter().any(|c| c.reason == "DeletionBlocked").then_some(())
        })
        .await;
    services(world.client()).delete("llm", &DeleteParams::default()).await.unwrap();
    world.eventually("the config is gone", async || api.get_opt("mine").await.unwrap().is_none()).await;
}

/// Waits until the condition about the use of a config has the reason `wanted`.
async fn use_of(world: &longboat_testkit::TestCluster, name: &str, wanted: &str) {
    let api = configs(world.client(), "ns");
    world
        .eventually(wanted, async || {
            let status = api.get_opt(name).await.unwrap()?.status?;
            status
                .conditions
                .iter()
                .any(|found| found.type_ == "ConfigInUse" && found.reason == wanted)
                .then_some(())
        })
        .await;
}

async fn is_gone(world: &longboat_testkit::TestCluster, name: &str) {
    let api = configs(world.client(), "ns");
    world.eventually("it is gone", async || api.get_opt(name).await.unwrap().is_none()).await;
}

#[tokio::test]
async fn a_preset_that_a_service_would_use_stays_although_the_service_lacks_another_config() {
    let world = world().await;
    let _running = Running::start(&world);
    let (used, unused) = ("kserve-config-llm-template", "kserve-config-llm-worker-data-parallel");
    for name in [used, unused] {
        world.apply(config(name, &with_image("own:1"))).await;
    }
    world.apply(service("llm", json!({"baseRefs": [{"name": "missing"}]}))).await;
    condition(&world, "llm", "PresetsCombined", |found| found.reason == "ConfigNotFound").await;
    let api = configs(world.client(), "ns");
    for name in [used, unused] {
        // By now the config has its finalizer.
        use_of(&world, name, "NotInUse").await;
        api.delete(name, &DeleteParams::default()).await.unwrap();
        use_of(&world, name, "DeletionBlocked").await;
    }
    // After composition, it is known which config the service uses.
    world.apply(config("missing", &json!({"replicas": 1}))).await;
    condition(&world, "llm", "PresetsCombined", Condition::is_true).await;
    is_gone(&world, unused).await;
    use_of(&world, used, "DeletionBlocked").await;
    services(world.client()).delete("llm", &DeleteParams::default()).await.unwrap();
    is_gone(&world, used).await;
}

#[tokio::test]
async fn another_service_does_not_rewrite_the_presets() {
    let (world, running) = started(service("one", json!({}))).await;
    condition(&world, "one", "PresetsCombined", Condition::is_true).await;
    world.settle(QUIET).await;
    let api = configs(world.client(), "kserve");
    let version = async || api.get("kserve-config-llm-template").await.unwrap().metadata.resource_version;
    let before = version().await;
    world.apply(service("two", json!({}))).await;
    condition(&world, "two", "PresetsCombined", Condition::is_true).await;
    world.settle(QUIET).await;
    assert_eq!(version().await, before);
    running.stop().await;
}

#[tokio::test]
async fn a_merged_spec_that_the_schema_refuses_is_reported_by_field() {
    let (world, _running) =
        started(config("mine", &json!({"scaling": {"maxReplicas": 2, "wva": {"hpa": {}}}}))).await;
    world.apply(service("llm", json!({"baseRefs": [{"name": "mine"}]}))).await;
    let refused = condition(&world, "llm", "PresetsCombined", Condition::is_false).await;
    assert_eq!(refused.reason, "InvalidRenderedConfig");
    assert!(
        refused.message.contains("Preset:kserve/kserve-config-llm-template, UserRef:ns/mine"),
        "{}",
        refused.message
    );
    assert!(refused.message.contains("mutually exclusive"), "{}", refused.message);
    // Removing the conflict is enough.
    let patch = json!({"spec": {"replicas": null}});
    services(world.client()).patch("llm", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    condition(&world, "llm", "PresetsCombined", Condition::is_true).await;
}

#[tokio::test]
async fn a_config_may_go_once_its_last_service_is_gone() {
    let (world, _running) = started(config("mine", &with_image("mine:1"))).await;
    let (api, users) = (configs(world.client(), "ns"), services(world.client()));
    for round in 0..5 {
        let name = format!("llm-{round}");
        world.apply(config("mine", &with_image("mine:1"))).await;
        world.apply(service(&name, json!({"baseRefs": [{"name": "mine"}]}))).await;
        condition(&world, &name, "PresetsCombined", Condition::is_true).await;
        world
            .eventually("it is in use", async || {
                api.get("mine").await.unwrap().status.is_some_and(|s| !s.referenced_by.is_empty())
            })
            .await;
        api.delete("mine", &DeleteParams::default()).await.unwrap();
        users.delete(&name, &DeleteParams::default()).await.unwrap();
        world.eventually("the config is gone", async || api.get_opt("mine").await.unwrap().is_none()).await;
    }
}

#[tokio::test]
async fn a_value_in_the_slot_for_offloading_is_a_condition_and_an_event_until_it_is_removed() {
    let world = world().await;
    let _running = Running::start(&world);
    let with_env = |env: Value| {
        let main = json!({"name": "main", "env": env});
        service("llm", json!({"kvCacheOffloading": {"cpu": "1Gi"}, "template": {"containers": [main]}}))
    };
    world.apply(with_env(json!([{"name": "KSERVE_KV_TRANSFER_ARGS", "value": "--x"}]))).await;
    let refused = condition(&world, "llm", "PresetsCombined", Condition::is_false).await;
    assert_eq!(refused.reason, "KVTransferSlotConflict");
    let events: Api<Event> = Api::namespaced(world.client(), "ns");
    let event = world
        .eventually("the event", async || {
            let all = events.list(&ListParams::default()).await.unwrap().items;
            all.into_iter().find(|event| event.reason.as_deref() == Some("KVTransferSlotConflict"))
        })
        .await;
    assert_eq!((event.type_.as_deref(), event.message), (Some("Warning"), Some(refused.message)));
    let api = deployments(world.client());
    assert!(api.get_opt("llm-kserve").await.unwrap().is_none());
    world.apply(with_env(json!([]))).await;
    let deployment =
        world.eventually("the Deployment", async || api.get_opt("llm-kserve").await.unwrap()).await;
    let containers = deployment.spec.unwrap().template.spec.unwrap().containers;
    let env = containers.into_iter().flat_map(|container| container.env.unwrap_or_default());
    let slot = env.into_iter().find(|variable| variable.name == "KSERVE_KV_TRANSFER_ARGS").unwrap();
    assert!(slot.value.unwrap().contains("CPUOffloadingSpec"));
}

#[tokio::test]
async fn what_layers_do_without_effect_is_said_once() {
    let (world, running) = started(config("idle", &json!({"replicas": 7}))).await;
    world
        .apply(config(
            "tolerant",
            &json!({"template": {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "a"}]}}),
        ))
        .await;
    let spec = json!({
        "replicas": 2,
        "baseRefs": [{"name": "idle"}, {"name": "tolerant"}],
        "template": {"tolerations": [{"key": "b"}]},
    });
    world.apply(service("llm", spec)).await;
    let events: Api<Event> = Api::namespaced(world.client(), "ns");
    let said = async || {
        let all = events.list(&ListParams::default()).await.unwrap().items.into_iter();
        let ours = all.filter(|event| {
            ["ConfigWithoutEffect", "FieldOverridden"].contains(&event.reason.as_deref().unwrap_or_default())
        });
        let mut said: Vec<(String, Option<i32>)> =
            ours.map(|event| (event.message.unwrap_or_default(), event.count)).collect();
        said.sort();
        said
    };
    let expected = vec![
        (
            "LLMInferenceServiceConfig ns/idle in spec.baseRefs[0] has no effect: higher layers override \
             every field that it sets, or set the same value"
                .to_owned(),
            Some(1),
        ),
        (
            "the service replaces the whole list spec.template.tolerations of LLMInferenceServiceConfig \
             ns/tolerant: this list is not merged element by element"
                .to_owned(),
            Some(1),
        ),
    ];
    world.eventually("both events", async || said().await.len() == 2).await;
    assert_eq!(said().await, expected);

    // Reconciles with the same layers record no new events, and neither does a restarted controller.
    let api = services(world.client());
    let touch = Patch::Merge(json!({"metadata": {"annotations": {"touched": "yes"}}}));
    api.patch("llm", &PatchParams::default(), &touch).await.unwrap();
    world.settle(QUIET).await;
    running.stop().await;
    let _running = Running::start(&world);
    world.settle(QUIET).await;
    let touch = Patch::Merge(json!({"spec": {"replicas": 3}}));
    api.patch("llm", &PatchParams::default(), &touch).await.unwrap();
    world.settle(QUIET).await;
    assert_eq!(said().await, expected);
}
