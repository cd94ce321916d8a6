//! Pods of different revisions are kept apart if that is requested.

use std::sync::Arc;

use longboat_api::{conditions::Condition, labels::KV_REVISION};
use longboat_key::{Name, Namespace};
use serde_json::{Value, json};

use super::{
    cluster_model::ClusterModel,
    laws::{NAMESPACE, plain, presets_as_layers, settled, with_prefill, world},
    proof::{condition, rolled_out},
};

const HALVES: [&str; 2] = ["llm-kserve", "llm-kserve-prefill"];

fn paired(mut service: Value) -> Value {
    service["metadata"]["annotations"] = json!({"longboat.dev/kv-pairing": "true"});
    service
}

/// The label on the pods of each half that exists.
fn labels(world: &ClusterModel) -> Vec<Option<String>> {
    let template = |name: &str| {
        let found = world.snapshot.deployments.get(Namespace(NAMESPACE), Name(name))?;
        let labels = found.spec.as_ref()?.template.metadata.as_ref()?.labels.clone();
        Some(labels.unwrap_or_default().remove(KV_REVISION))
    };
    HALVES.into_iter().filter_map(template).collect()
}

/// Returns the label, which must be the same for both halves.
fn revision(service: Value) -> String {
    let labels = labels(&settled(paired(service)));
    assert_eq!(labels[0], labels[1], "one revision for both");
    labels[0].clone().unwrap()
}

fn main_container(half: &str, container: &Value) -> Value {
    let mut service = with_prefill();
    let template = json!({"containers": [container]});
    match half {
        "prefill" => service["spec"]["prefill"]["template"] = template,
        _ => service["spec"]["template"] = template,
    }
    service
}

#[test]
fn nobody_is_labelled_unless_somebody_asks_for_it() {
    for service in [plain(), with_prefill(), paired(plain())] {
        let world = settled(service);
        assert!(labels(&world).iter().all(Option::is_none));
        assert!(condition(&world, "KVPaired").is_none());
    }
    let mut off = with_prefill();
    off["metadata"]["annotations"] = json!({"longboat.dev/kv-pairing": "false"});
    for (service, expected) in [(with_prefill(), true), (off, false)] {
        let mut world = world(&presets_as_layers(), false);
        Arc::make_mut(&mut world.snapshot.platform).kv_pairing = true;
        world.put(service, NAMESPACE);
        world.settle();
        assert!(labels(&world).iter().all(|label| label.is_some() == expected), "{:?}", labels(&world));
    }
}

#[test]
fn the_revision_follows_what_both_halves_must_agree_about_and_nothing_else() {
    let base = revision(with_prefill());
    let arguments = |half: &str, text: &str| {
        main_container(
            half,
            &json!({"name": "main", "env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": text}]}),
        )
    };
    let mut model = with_prefill();
    model["spec"]["model"]["uri"] = json!("hf://org/other");
    let mut parallel = with_prefill();
    parallel["spec"]["prefill"]["parallelism"] = json!({"tensor": 2});
    let sidecar = {
        let mut service = with_prefill();
        service["spec"]["template"] = json!({"initContainers": [{"name": "llm-d-routing-sidecar", "args": ["--kv-connector=mooncake"]}]});
        service
    };
    let others = [
        model,
        parallel,
        main_container("prefill", &json!({"name": "main", "image": "example.com/vllm:2"})),
        main_container("decode", &json!({"name": "main", "image": "example.com/vllm:2"})),
        arguments("prefill", "--kv-transfer-config '{\"kv_connector\": \"NixlConnector\"}'"),
        arguments("decode", "--block-size 32"),
        sidecar,
    ];
    let mut seen = vec![base.clone()];
    for other in others {
        let revision = revision(other.clone());
        assert!(!seen.contains(&revision), "{other}");
        seen.push(revision);
    }
    let mut replicas = with_prefill();
    replicas["spec"]["prefill"]["replicas"] = json!(3);
    for same in [replicas, arguments("decode", "--max-num-seqs 4")] {
        assert_eq!(revision(same.clone()), base, "{same}");
    }
}

#[test]
fn the_status_says_what_a_roll_out_waits_for() {
    let mut world = settled(paired(with_prefill()));
    rolled_out(&mut world);
    let said = |world: &ClusterModel| condition(world, "KVPaired").unwrap();
    let before = said(&world);
    assert!(before.is_true() && before.reason == "OneRevision", "{before:?}");
    let mut changed = paired(with_prefill());
    changed["spec"]["prefill"]["template"] =
        json!({"containers": [{"name": "main", "image": "example.com/vllm:2"}]});
    world.put(changed, NAMESPACE);
    world.settle();
    let Condition { reason, message, .. } = said(&world);
    assert_eq!(reason, "WaitingForRollout");
    let revision = labels(&world)[1].clone().unwrap();
    assert!(message.contains(&revision) && message.contains("Deployment llm-kserve-prefill"), "{message}");
    assert!(message.contains("Deployment llm-kserve has not"), "both halves roll: {message}");
    assert!(condition(&world, "Ready").unwrap().is_true(), "it serves meanwhile");
    rolled_out(&mut world);
    assert!(said(&world).message.contains(&revision));
    world.put(with_prefill(), NAMESPACE);
    world.settle();
    assert!(condition(&world, "KVPaired").is_none());
    let [decode, prefill] = labels(&world).try_into().unwrap();
    assert!(decode.is_some(), "nothing rolls for a label that does no harm");
    assert_eq!(prefill, None, "the pods with another image come without it");
}
