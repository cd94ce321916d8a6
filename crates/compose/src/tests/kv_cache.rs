//! KV cache offloading: the slot for its argument, and the size of `/dev/shm`. Pods of services without it do not change.

use longboat_api::v1alpha2::LLMInferenceServiceConfig;
use longboat_golden::golden;
use longboat_key::Namespace;
use serde_json::{Value, json};

use super::{
    merged::{compose, composed, configs},
    recordings::config_set,
    replay,
};
use crate::{
    ComposeError, ConfigSet, Effective, Layer, PresetNames, Retry, kv_cache::SLOT, presets,
    small_shared_memory,
};

fn spec(effective: &Effective) -> Value {
    serde_json::to_value(&effective.spec).unwrap()
}

/// The value of the slot in the main container of a pod, if the slot is there.
fn slot(effective: &Effective, pod: &str) -> Option<String> {
    let spec = spec(effective);
    let containers = spec.pointer(pod)?["containers"].as_array()?.clone();
    let main = containers.into_iter().find(|container| container["name"] == "main")?;
    let slots: Vec<_> = main["env"].as_array()?.iter().filter(|variable| variable["name"] == SLOT).collect();
    assert!(slots.len() < 2, "{slots:?}");
    Some(slots.first()?["value"].as_str()?.to_owned())
}

fn shared_memory(effective: &Effective, pod: &str) -> String {
    let spec = spec(effective);
    let volumes = spec.pointer(pod).unwrap()["volumes"].as_array().unwrap().clone();
    let volume = volumes.into_iter().find(|volume| volume["name"] == "dshm").unwrap();
    volume["emptyDir"]["sizeLimit"].as_str().unwrap().to_owned()
}

/// A preset of this build, changed.
fn preset(suffix: &str, change: impl FnOnce(&mut Value)) -> Layer {
    let all = presets::builtin(&PresetNames::default(), Namespace("kserve")).unwrap();
    let name = PresetNames::default().full(suffix);
    let found = all.into_iter().find(|preset| preset.metadata.name.as_ref() == Some(&name)).unwrap();
    let mut config = serde_json::to_value(found).unwrap();
    change(&mut config);
    Layer::new(&serde_json::from_value::<LLMInferenceServiceConfig>(config).unwrap()).unwrap()
}

fn with(layer: Layer) -> ConfigSet {
    let mut configs = configs([]);
    configs.insert(layer);
    configs
}

#[test]
fn the_slot_gets_the_argument_and_without_offloading_it_is_removed() {
    let both = json!({
        "kvCacheOffloading": { "cpu": "10Gi" },
        "prefill": {
            "kvCacheOffloading": {
                "cpu": "1Gi", "evictionPolicy": "lru",
                "secondary": [{}, { "fileSystem": { "emptyDir": { "size": "1Gi" } } }],
            },
        },
    });
    let effective = composed(&configs([]), both);
    assert_eq!(
        slot(&effective, "/template").unwrap(),
        r#"--kv-transfer-config '{"kv_connector":"OffloadingConnector","kv_connector_extra_config":{"cpu_bytes_to_use":10737418240,"spec_name":"CPUOffloadingSpec"},"kv_role":"kv_both"}'"#
    );
    assert_eq!(
        slot(&effective, "/prefill/template").unwrap(),
        r#"--kv-transfer-config '{"kv_connector":"OffloadingConnector","kv_connector_extra_config":{"cpu_bytes_to_use":1073741824,"eviction_policy":"lru","secondary_tiers":[{"root_dir":"/mnt/kv-cache-1","type":"fs"}],"spec_name":"TieringOffloadingSpec"},"kv_role":"kv_both"}'"#
    );
    assert_eq!(replay::faults(&effective), Vec::<String>::new());
    let none = composed(&configs([]), json!({ "prefill": {} }));
    assert_eq!((slot(&none, "/template"), slot(&none, "/prefill/template")), (None, None));
    assert!(!spec(&none).to_string().contains(SLOT), "the script of such a service has no slot either");
}

#[test]
fn workers_have_a_slot_and_room_too_and_a_base_config_offloads_like_the_service() {
    let team =
        json!({ "kvCacheOffloading": { "cpu": "10Gi" }, "parallelism": { "data": 2, "dataLocal": 1 } });
    let own = json!({ "baseRefs": [{ "name": "team" }], "worker": { "containers": [] } });
    let effective = composed(&configs([("n", "team", team)]), own);
    for pod in ["/template", "/worker"] {
        assert!(slot(&effective, pod).unwrap().contains("10737418240"), "{pod}");
        assert_eq!(shared_memory(&effective, pod), "20Gi", "{pod}");
    }
    assert_eq!(replay::faults(&effective), Vec::<String>::new());
}

#[test]
fn a_container_without_a_slot_stays_as_it_is() {
    let layer = preset("config-llm-template", |config| {
        let env = config["spec"]["template"]["containers"][0]["env"].as_array_mut().unwrap();
        env.retain(|variable| variable["name"] != SLOT);
    });
    let effective = composed(&with(layer), json!({ "kvCacheOffloading": { "cpu": "10Gi" } }));
    assert_eq!(slot(&effective, "/template"), None);
}

#[test]
fn a_value_in_a_slot_is_refused_until_a_layer_changes() {
    let env = |value: Value| {
        let mut variable = value;
        variable["name"] = json!(SLOT);
        json!({ "containers": [{ "name": "main", "env": [variable] }] })
    };
    let secret = env(json!({ "valueFrom": { "secretKeyRef": { "name": "a", "key": "b" } } }));
    for (own, workload) in [
        (json!({ "template": env(json!({ "value": "--x" })) }), "template"),
        (json!({ "template": secret }), "template"),
        (json!({ "prefill": { "template": env(json!({ "value": "--x" })) } }), "prefill template"),
    ] {
        let error = compose(&configs([]), own, json!({})).unwrap_err();
        assert_eq!(error, ComposeError::KvTransferSlot { workload });
        assert_eq!((error.reason(), error.retry()), ("KVTransferSlotConflict", Retry::OnChange));
        let event = error.event().unwrap();
        assert_eq!((event.reason, &event.message), ("KVTransferSlotConflict", &error.to_string()));
        assert_eq!(
            error.to_string(),
            format!(
                "{workload}: container \"main\" sets env KSERVE_KV_TRANSFER_ARGS, which carries the argument generated from \
                 kvCacheOffloading; to supply the connector configuration yourself, pass --kv-transfer-config via \
                 VLLM_ADDITIONAL_ARGS or the container args"
            )
        );
    }
    // A slot of another container, or an empty one, is no conflict.
    let other =
        json!({ "containers": [{ "name": "side", "image": "x", "env": [{ "name": SLOT, "value": "x" }] }] });
    assert!(compose(&configs([]), json!({ "template": other }), json!({})).is_ok());
    assert!(compose(&configs([]), json!({ "template": env(json!({ "value": "" })) }), json!({})).is_ok());
}

#[test]
fn shared_memory_grows_by_what_the_preset_says_where_the_preset_declares_its_size() {
    let size = |configs: &ConfigSet, own: Value| shared_memory(&composed(configs, own), "/template");
    let offloading = json!({ "cpu": "10Gi" });
    let own = || json!({ "kvCacheOffloading": offloading });
    let annotated = |percent: Value| {
        with(preset("config-llm-template", |config| {
            config["metadata"]["annotations"]["internal.serving.kserve.io/kv-cache-shm-percent-of-cpu"] =
                percent;
        }))
    };
    assert_eq!(size(&configs([]), own()), "13Gi");
    assert_eq!(size(&configs([]), json!({})), "1Gi");
    assert_eq!(size(&annotated(json!("100")), own()), "11Gi");
    for invalid in ["0", "10001", "-1", "x", ""] {
        assert_eq!(size(&annotated(json!(invalid)), own()), "1Gi", "{invalid:?}");
    }
    // What a user declares stays.
    let volume = json!({ "name": "dshm", "emptyDir": { "medium": "Memory", "sizeLimit": "3Gi" } });
    let pod = json!({ "containers": [], "volumes": [volume] });
    let service = json!({ "kvCacheOffloading": offloading, "template": pod });
    assert_eq!(size(&configs([]), service), "3Gi");
    let team = configs([("kserve", "team", json!({ "template": pod }))]);
    assert_eq!(
        size(&team, json!({ "kvCacheOffloading": offloading, "baseRefs": [{ "name": "team" }] })),
        "3Gi"
    );
    // An amount that does not fit is added as it is.
    let huge = json!({ "kvCacheOffloading": { "cpu": "7Ei" } });
    assert_eq!(size(&annotated(json!("200")), huge), "7516192769Gi");
}

#[test]
fn a_copy_in_the_users_namespace_is_the_users_and_keeps_only_the_slot() {
    let copy = preset("config-llm-template", |config| config["metadata"]["namespace"] = json!("n"));
    let effective = composed(&with(copy), json!({ "kvCacheOffloading": { "cpu": "10Gi" } }));
    let applied = serde_json::to_value(&effective.applied).unwrap();
    assert_eq!(
        applied,
        json!([{ "name": "kserve-config-llm-template", "namespace": "n", "source": "UserRef" }])
    );
    assert_eq!(shared_memory(&effective, "/template"), "1Gi");
    assert!(slot(&effective, "/template").is_some());
}

/// A preset without the lines that gave the leader of a group its rank, which is the first of the file.
fn without_rank_of_leader(preset: &str) -> String {
    let mut lines: Vec<&str> = preset.lines().collect();
    if let Some(at) = lines.iter().position(|line| line.trim() == "start_rank=0") {
        lines.remove(at);
        let flag = lines.iter().position(|line| line.trim().starts_with("--data-parallel-start-rank"));
        lines.remove(flag.unwrap());
    }
    lines.join("\n")
}

/// The pods of running services must not roll because their presets are replaced by these. Only leaders of data parallel groups
/// do, because newer versions of vLLM refuse their former arguments (compatibility: start-scripts).
#[test]
fn without_offloading_the_presets_before_the_slot_give_the_same_pods() {
    let before = golden().join("presets").entries();
    assert_eq!(before.len(), 11);
    let before = config_set(
        &before
            .iter()
            .map(|file| {
                let mut config: Value =
                    serde_saphyr::from_str(&without_rank_of_leader(&file.read())).unwrap();
                config["metadata"]["namespace"] = json!("kserve");
                serde_json::from_value(config).unwrap()
            })
            .collect::<Vec<_>>(),
    );
    let now = configs([]);
    let empty = json!({ "containers": [] });
    let router = json!({ "route": {}, "gateway": {}, "scheduler": {} });
    let grid = json!({ "tensor": 2, "data": 4, "dataLocal": 2, "expert": true });
    for own in [
        json!({}),
        json!({ "router": router, "parallelism": { "tensor": 4 }, "tracing": {} }),
        json!({ "router": router, "prefill": { "parallelism": { "tensor": 2 } } }),
        json!({ "parallelism": grid, "worker": empty }),
        json!({ "parallelism": grid, "worker": empty, "prefill": { "parallelism": grid, "worker": empty } }),
        json!({ "template": { "containers": [{ "name": "main", "env": [{ "name": "A", "value": "b" }] }] } }),
    ] {
        assert_eq!(spec(&composed(&now, own.clone())), spec(&composed(&before, own.clone())), "{own}");
    }
    // The former presets give the former argument to services with offloading.
    let old = spec(&composed(&before, json!({ "kvCacheOffloading": { "cpu": "10Gi" } })));
    assert!(old.to_string().contains("TieringOffloadingSpec") && !old.to_string().contains(SLOT));
}

/// Presets that services pinned call this function, and its text is in their pods.
#[test]
fn the_function_of_former_presets_prints_what_it_always_printed() {
    let team = || json!({ "annotations": { "a": "{{ kvTransferConfig .Spec.KVCacheOffloading }}" } });
    for (offloading, expected) in [
        (
            json!({ "cpu": "10Gi" }),
            r#"--kv-transfer-config '{\"kv_connector\":\"OffloadingConnector\",\"kv_connector_extra_config\":{\"cpu_bytes_to_use\":10737418240,\"spec_name\":\"TieringOffloadingSpec\"},\"kv_role\":\"kv_both\"}'"#,
        ),
        (
            json!({ "cpu": "1.5Gi", "secondary": [{ "fileSystem": {} }] }),
            r#"--kv-transfer-config '{\"kv_connector\":\"OffloadingConnector\",\"kv_connector_extra_config\":{\"cpu_bytes_to_use\":1610612736,\"secondary_tiers\":[{\"root_dir\":\"/mnt/kv-cache-0\",\"type\":\"fs\"}],\"spec_name\":\"TieringOffloadingSpec\"},\"kv_role\":\"kv_both\"}'"#,
        ),
    ] {
        let own = json!({ "kvCacheOffloading": offloading, "baseRefs": [{ "name": "team" }] });
        let effective = composed(&configs([("n", "team", team())]), own);
        assert_eq!(spec(&effective)["annotations"]["a"], expected);
    }
    let none = composed(&configs([("n", "team", team())]), json!({ "baseRefs": [{ "name": "team" }] }));
    assert_eq!(spec(&none)["annotations"].get("a"), Some(&json!("")));
}

#[test]
fn a_shared_memory_that_cannot_hold_the_cache_is_found() {
    let found = |more: Value| {
        let mut spec = json!({ "kvCacheOffloading": { "cpu": "10Gi" } });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        small_shared_memory(&composed(&configs([]), spec).spec)
            .into_iter()
            .map(|memory| format!("{} {} {}", memory.path, memory.size, memory.cache))
            .collect::<Vec<_>>()
    };
    let fixed =
        |size: &str| json!([{ "name": "dshm", "emptyDir": { "medium": "Memory", "sizeLimit": size } }]);
    assert_eq!(found(json!({})), Vec::<String>::new());
    assert_eq!(found(json!({ "template": { "volumes": fixed("10Gi") } })), Vec::<String>::new());
    assert_eq!(
        found(json!({
            "template": { "volumes": fixed("1Gi") },
            "prefill": { "kvCacheOffloading": { "cpu": "2Gi" }, "template": { "volumes": fixed("1024Mi") } },
        })),
        [
            "spec.template.volumes[name=dshm].emptyDir.sizeLimit 1Gi 10Gi",
            "spec.prefill.template.volumes[name=dshm].emptyDir.sizeLimit 1Gi 2Gi",
        ]
    );
}
