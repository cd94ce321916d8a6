//! Services that name a runtime.

use std::{
    fs,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use longboat_api::{
    engine::{ENGINES, Engine, SGLANG},
    foreign::servingruntime::ServingRuntimeSpec,
    labels::ENGINE_TYPE,
    v1alpha2::{AppliedConfig, ConfigSource, LLMInferenceServiceSpec},
};
use longboat_key::Namespace;
use serde_json::{Value, json};

use super::{
    recordings::{config_set, inputs, service},
    scripts::executable,
};
use crate::{
    ComposeError, ConfigSet, Effective, Layer, Origin, Platform, PresetNames, compose, platform::Images,
    presets,
};

const SYSTEM: Namespace<&str> = Namespace("kserve");

/// The presets and runtimes that are shipped.
fn shipped() -> ConfigSet {
    let mut set = config_set(&presets::builtin(&PresetNames::default(), SYSTEM).unwrap());
    for runtime in presets::runtimes().unwrap() {
        set.insert(Layer::of_runtime(&runtime.metadata, &runtime.spec).unwrap());
    }
    set
}

/// A runtime; without a namespace, one of the cluster.
fn runtime(namespace: Option<&str>, name: &str, spec: &Value) -> Layer {
    let metadata = serde_json::from_value(json!({"name": name, "namespace": namespace})).unwrap();
    let spec: ServingRuntimeSpec = serde_json::from_value(spec.clone()).unwrap();
    Layer::of_runtime(&metadata, &spec).unwrap()
}

fn base(name: &str, spec: &Value) -> Layer {
    let config = json!({"metadata": {"name": name, "namespace": "team"}, "spec": spec});
    Layer::new(&serde_json::from_value(config).unwrap()).unwrap()
}

fn of_sglang(image: &str) -> Value {
    json!({"supportedModelFormats": [{"name": "sglang"}], "containers": [{"name": "main", "image": image}]})
}

fn composed_with(configs: &ConfigSet, platform: &Platform, spec: &Value) -> Result<Effective, ComposeError> {
    let service = service(json!({"metadata": {"name": "chat", "namespace": "team"}, "spec": spec}));
    compose(&inputs(&service, configs, platform))
}

fn composed(configs: &ConfigSet, more: &Value) -> Result<Effective, ComposeError> {
    let mut spec = json!({"model": {"uri": "hf://a/b", "name": "b"}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    composed_with(configs, &Platform::default(), &spec)
}

fn main_container(spec: &LLMInferenceServiceSpec) -> &k8s_openapi::api::core::v1::Container {
    spec.workload.template.as_ref().unwrap().containers.iter().find(|c| c.name == "main").unwrap()
}

fn image(effective: &Effective) -> &str {
    main_container(&effective.spec).image.as_deref().unwrap()
}

fn applied(name: &str, namespace: &str, source: ConfigSource) -> AppliedConfig {
    AppliedConfig { name: name.to_owned(), namespace: namespace.to_owned(), source }
}

#[test]
fn the_runtime_is_the_lowest_layer_below_the_preset_of_its_engine() {
    let effective = composed(&shipped(), &json!({"runtime": "kserve-llm-sglang"})).unwrap();
    assert_eq!(
        effective.applied,
        [
            applied("kserve-llm-sglang", "", ConfigSource::ServingRuntime),
            applied("kserve-config-sglang-template", "kserve", ConfigSource::Preset),
        ]
    );
    assert_eq!(image(&effective), "lmsysorg/sglang:v0.5.14");
    assert_eq!(effective.spec.workload.labels[ENGINE_TYPE], SGLANG.label);
    let provenance = effective.provenance();
    let leaf = provenance.get("template.containers[name=main].image").unwrap();
    assert_eq!(leaf.origin.to_string(), "ClusterServingRuntime kserve-llm-sglang");
    assert!(matches!(leaf.origin, Origin::Runtime(_)));
    let own = json!({"containers": [{"name": "main", "image": "mine:1"}]});
    let over = composed(&shipped(), &json!({"runtime": "kserve-llm-sglang", "template": own})).unwrap();
    assert_eq!(image(&over), "mine:1");
}

/// Caches identify layers by their addresses, and warnings are computed again when layers change.
#[test]
fn a_service_with_separate_prefill_has_the_same_layers_each_time() {
    let (configs, spec) = (shipped(), json!({"runtime": "kserve-llm-sglang", "prefill": {}}));
    let [one, other] = [(); 2].map(|()| composed(&configs, &spec).unwrap());
    assert!(one.layers().iter().zip(other.layers()).all(|(one, other)| Arc::ptr_eq(one, other)));
}

#[test]
fn a_runtime_of_the_namespace_comes_first_and_contributes_the_whole_pod() {
    let mut configs = shipped();
    let pod = json!({
        "supportedModelFormats": [{"name": "SGLang"}],
        "containers": [
            {"name": "main", "image": "mine:2", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
            {"name": "side", "image": "side:1"},
        ],
        "volumes": [{"name": "own", "emptyDir": {}}],
        "nodeSelector": {"gpu": "yes"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "imagePullSecrets": [{"name": "pull"}],
        "labels": {"team": "a"},
        "annotations": {"note": "b"},
    });
    configs.insert(runtime(Some("team"), "kserve-llm-sglang", &pod));
    configs.insert(runtime(Some("other"), "kserve-llm-sglang", &of_sglang("other:1")));
    let effective = composed(&configs, &json!({"runtime": "kserve-llm-sglang"})).unwrap();
    assert_eq!(effective.applied[0], applied("kserve-llm-sglang", "team", ConfigSource::ServingRuntime));
    assert_eq!(image(&effective), "mine:2");
    let spec = serde_json::to_value(&effective.spec).unwrap();
    let template = &spec["template"];
    assert_eq!(template["containers"].as_array().unwrap().len(), 2);
    assert!(template["volumes"].as_array().unwrap().iter().any(|volume| volume["name"] == "own"));
    assert_eq!(template["nodeSelector"]["gpu"], "yes");
    assert_eq!(template["tolerations"][0]["key"], "gpu");
    assert_eq!(template["affinity"], json!({"nodeAffinity": {}}));
    assert_eq!(template["imagePullSecrets"][0]["name"], "pull");
    assert_eq!((&spec["labels"]["team"], &spec["annotations"]["note"]), (&json!("a"), &json!("b")));
}

#[test]
fn a_base_config_may_name_the_runtime_and_the_service_another_one() {
    let mut configs = shipped();
    configs.insert(base("base", &json!({"runtime": "kserve-llm-sglang"})));
    configs.insert(runtime(None, "mine", &of_sglang("mine:3")));
    let refs = json!([{"name": "base"}]);
    let effective = composed(&configs, &json!({"baseRefs": refs})).unwrap();
    assert_eq!(image(&effective), "lmsysorg/sglang:v0.5.14");
    assert_eq!(effective.spec.runtime(), Some("kserve-llm-sglang"));
    let effective = composed(&configs, &json!({"baseRefs": refs, "runtime": "mine"})).unwrap();
    assert_eq!((image(&effective), effective.spec.runtime()), ("mine:3", Some("mine")));
    // Of several base configs the last one counts, and the service before all of them, as in the merged spec.
    configs.insert(base("last", &json!({"runtime": "mine"})));
    let both = json!([{"name": "base"}, {"name": "last"}]);
    let effective = composed(&configs, &json!({"baseRefs": both})).unwrap();
    assert_eq!((image(&effective), effective.spec.runtime()), ("mine:3", Some("mine")));
    let effective = composed(&configs, &json!({"baseRefs": both, "runtime": "kserve-llm-sglang"})).unwrap();
    assert_eq!(image(&effective), "lmsysorg/sglang:v0.5.14");
    let effective = composed(&configs, &json!({"baseRefs": refs, "runtime": ""})).unwrap();
    assert!(effective.applied.iter().all(|config| config.source != ConfigSource::ServingRuntime));
}

#[test]
fn a_runtime_that_no_service_can_use_is_an_error_that_says_why() {
    let mut configs = shipped();
    let main = json!([{"name": "main", "image": "kserve/huggingfaceserver:v1"}]);
    let formats = json!([{"name": "huggingface"}]);
    configs.insert(runtime(None, "hf", &json!({"supportedModelFormats": formats, "containers": main})));
    // The format decides, not the image.
    let main = json!([{"name": "main", "image": "lmsysorg/sglang:v1"}]);
    let formats = json!([{"name": "triton"}]);
    configs.insert(runtime(None, "tri", &json!({"supportedModelFormats": formats, "containers": main})));
    let formats = json!([{"name": "vllm"}]);
    configs.insert(runtime(None, "own", &json!({"supportedModelFormats": formats, "containers": main})));
    let predictor = json!([{"name": "kserve-container", "image": "lmsysorg/sglang:v1"}, {"name": "proxy"}]);
    let formats = json!([{"name": "sglang"}]);
    configs.insert(runtime(
        None,
        "isvc",
        &json!({"supportedModelFormats": formats, "containers": predictor}),
    ));
    let mut off = of_sglang("x");
    off["disabled"] = json!(true);
    configs.insert(runtime(None, "off", &off));
    for (name, reason, texts) in [
        ("tri", "RuntimeUnsupported", ["ClusterServingRuntime tri", "engine is unknown", "sglang or vllm"]),
        (
            "own",
            "RuntimeUnsupported",
            ["ClusterServingRuntime own", "the preset of vLLM has an image", "spec.template"],
        ),
        (
            "none",
            "RuntimeNotFound",
            ["\"none\"", "ServingRuntime in namespace team", "ClusterServingRuntime"],
        ),
        (
            "hf",
            "RuntimeUnsupported",
            ["ClusterServingRuntime hf", "engine is unknown", "supportedModelFormats"],
        ),
        (
            "isvc",
            "RuntimeUnsupported",
            ["ClusterServingRuntime isvc", "(kserve-container, proxy)", "named main"],
        ),
        ("off", "RuntimeUnsupported", ["ClusterServingRuntime off", "disabled", "another runtime"]),
    ] {
        let error = composed(&configs, &json!({"runtime": name})).unwrap_err();
        assert_eq!(error.reason(), reason, "{name}");
        assert_eq!(error.retry(), crate::Retry::OnChange, "{name}");
        for text in texts {
            assert!(error.to_string().contains(text), "{error}: {text}");
        }
    }
}

#[test]
fn what_the_engine_cannot_have_is_refused_after_merging_too() {
    let mut configs = shipped();
    configs.insert(runtime(None, "mine", &of_sglang("mine:1")));
    let of_gguf =
        json!({"supportedModelFormats": [{"name": "GGUF"}], "containers": [{"name": "main", "image": "x"}]});
    configs.insert(runtime(None, "llama", &of_gguf));
    configs.insert(base("split", &json!({"prefill": {}})));
    let adapters = |limit: i32| {
        let lora = json!({"adapters": [{"name": "sql", "uri": "hf://a/sql"}], "maxCpuAdapters": limit});
        json!({"uri": "hf://a/b", "name": "b", "lora": lora})
    };
    let of_vllm = json!({"containers": [{"name": "main", "command": ["vllm", "serve", "/mnt/models"]}]});
    let groups = json!({"data": 2, "dataLocal": 1});
    for (runtime, more, field) in [
        ("mine", json!({"model": adapters(7)}), "spec.model.lora.maxCpuAdapters"),
        ("mine", json!({"model": {"uri": "hf://a/b", "name": "b:7b"}}), "spec.model.name"),
        ("mine", json!({"kvCacheOffloading": {"cpu": "1Gi"}}), "spec.kvCacheOffloading"),
        ("mine", json!({"prefill": {"kvCacheOffloading": {"cpu": "1Gi"}}}), "spec.prefill.kvCacheOffloading"),
        ("mine", json!({"template": of_vllm}), "spec.template"),
        ("mine", json!({"parallelism": groups, "worker": of_vllm}), "spec.worker"),
        ("mine", json!({"prefill": {"template": of_vllm}}), "spec.prefill.template"),
        ("mine", json!({"prefill": {"parallelism": groups, "worker": of_vllm}}), "spec.prefill.worker"),
        ("llama", json!({"model": adapters(8)}), "spec.model.lora"),
        ("llama", json!({"baseRefs": [{"name": "split"}]}), "spec.prefill"),
        ("llama", json!({"parallelism": {"data": 2, "dataLocal": 1}, "worker": {}}), "spec.worker"),
        ("llama", json!({"parallelism": {"tensor": 2}}), "spec.parallelism.tensor"),
    ] {
        let mut spec = more;
        spec["runtime"] = json!(runtime);
        let error = composed(&configs, &spec).unwrap_err();
        assert_eq!(error.reason(), "RuntimeUnsupported");
        let start = format!("ClusterServingRuntime {runtime} cannot serve this service: {field}");
        assert!(error.to_string().starts_with(&start), "{error}");
        let of_base = format!("{field} of LLMInferenceServiceConfig team/split is not possible");
        assert_eq!(error.to_string().contains(&of_base), field == "spec.prefill", "{error}");
    }
}

#[test]
fn sglang_is_plain_http_even_if_the_platform_has_tls() {
    let mut platform = Platform::default();
    platform.ingress.enable_tls = true;
    let scheduled = |runtime: Option<&str>| {
        let spec = json!({
            "model": {"uri": "hf://a/b", "name": "b"}, "runtime": runtime, "router": {"scheduler": {}},
        });
        let effective = composed_with(&shipped(), &platform, &spec).unwrap();
        serde_json::to_string(&effective.spec).unwrap()
    };
    assert!(scheduled(None).contains("--model-server-metrics-scheme=https"));
    let text = scheduled(Some("kserve-llm-sglang"));
    assert!(!text.contains("--model-server-metrics-scheme=https") && !text.contains("\"HTTPS\""), "{text}");
}

#[test]
fn the_preset_of_an_engine_is_what_its_row_says() {
    for engine in ENGINES {
        let [suffix, ..] = engine.presets.whole.single else { panic!("{}", engine.name) };
        let preset = presets::builtin(&PresetNames::default(), SYSTEM).unwrap();
        let name = format!("kserve-{suffix}");
        let preset =
            preset.into_iter().find(|config| config.metadata.name.as_deref() == Some(&name)).unwrap();
        let main = main_container(&preset.spec);
        assert_eq!(Engine::of_command(main).map(|engine| engine.name), Some(engine.name));
        let script = main.command.as_ref().unwrap().join(" ");
        assert!(script.contains(engine.served_name), "{suffix}");
        assert_eq!(script.contains("EnableTLS"), engine.tls, "{suffix}");
        let probe = main.readiness_probe.as_ref().unwrap().http_get.as_ref().unwrap();
        assert_eq!(probe.path.as_deref(), Some(engine.health), "{suffix}");
        if let Some(variable) = engine.arguments {
            assert!(script.contains(variable), "{suffix}");
        }
    }
}

/// The words that a container passes to the program, as the leader of a group of two has them, or another pod of it.
fn started(container: &k8s_openapi::api::core::v1::Container, program: &str, index: &str) -> Vec<String> {
    // Tests of one process run concurrently.
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("longboat-{program}-{}-{call}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    executable(&folder.join(program), "#!/bin/bash\nprintf '%s\\n' \"$@\"\n");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let command = [container.command.clone().unwrap(), container.args.clone().unwrap_or_default()].concat();
    let group = [("LWS_GROUP_SIZE", "2"), ("LWS_WORKER_INDEX", index), ("LWS_LEADER_ADDRESS", "leader")];
    let output =
        Command::new(&command[0]).args(&command[1..]).env("PATH", path).envs(group).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::remove_dir_all(&folder).unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(ToOwned::to_owned).collect()
}

/// The flags of SGLang after those that it always has.
fn flags_of_sglang(container: &k8s_openapi::api::core::v1::Container, index: &str) -> String {
    let words = started(container, "python3", index);
    let at = words.iter().position(|word| word == "--enable-metrics").unwrap();
    let port = words.iter().position(|word| word == "--port").unwrap();
    format!("{} {}", words[port + 1], words[at + 1..].join(" ")).trim_end().to_owned()
}

#[test]
fn the_script_starts_sglang_with_each_argument_as_it_is() {
    let name = "it's a $(name) \"of\" `b` $HOME";
    let json_argument = "{\"a b\": \"$HOME\"}";
    let args = json!(["--context-length", "4096", "--json", json_argument]);
    let spec = json!({
        "model": {"uri": "hf://a/b", "name": name},
        "runtime": "kserve-llm-sglang",
        "parallelism": {"tensor": 2},
        "template": {"containers": [{"name": "main", "args": args}]},
    });
    let effective = composed_with(&shipped(), &Platform::default(), &spec).unwrap();
    let main = main_container(&effective.spec);
    let words = started(main, "python3", "0");
    let own = ["-m", "sglang.launch_server", "--model-path", "/mnt/models", "--served-model-name", name];
    let fixed = ["--port", "8000", "--host", "0.0.0.0", "--enable-metrics", "--tp", "2"];
    let given = ["--context-length", "4096", "--json", json_argument];
    assert_eq!(words, [&own[..], &fixed, &given].concat());
}

#[test]
fn groups_and_halves_of_sglang_have_its_flags_and_the_image_of_the_runtime() {
    let group =
        json!({"worker": {}, "parallelism": {"tensor": 4, "data": 2, "dataLocal": 1, "expert": true}});
    let pipeline = json!({"worker": {}, "parallelism": {"tensor": 4, "pipeline": 2, "dataRPCPort": 5000}});
    let with = |mut spec: Value, more: Value| {
        spec["runtime"] = json!("kserve-llm-sglang");
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let attention = "--tp 8 --enable-dp-attention --dp-size 2 --ep-size 8 --nnodes 2 --node-rank";
    let at = "--dist-init-addr leader:5555";
    for (spec, main, worker, prefill, prefill_worker) in [
        (json!({}), "8000".to_owned(), None, None, None),
        (
            json!({"parallelism": {"data": 2, "dataLocal": 2}}),
            "8000 --dp-size 2".to_owned(),
            None,
            None,
            None,
        ),
        (
            json!({"prefill": {"parallelism": {"tensor": 2}}}),
            "8001 --disaggregation-mode decode".to_owned(),
            None,
            Some("8000 --disaggregation-mode prefill --disaggregation-bootstrap-port 8998 --tp 2".to_owned()),
            None,
        ),
        (
            group.clone(),
            format!("8000 {attention} 0 {at}"),
            Some(format!("8000 {attention} 1 {at}")),
            None,
            None,
        ),
        (
            pipeline,
            "8000 --tp 4 --pp-size 2 --nnodes 2 --node-rank 0 --dist-init-addr leader:5000".to_owned(),
            Some("8000 --tp 4 --pp-size 2 --nnodes 2 --node-rank 1 --dist-init-addr leader:5000".to_owned()),
            None,
            None,
        ),
        (
            with(group.clone(), json!({"prefill": group})),
            format!("8001 {attention} 0 {at} --disaggregation-mode decode"),
            Some(format!("8001 {attention} 1 {at} --disaggregation-mode decode")),
            Some(format!(
                "8000 --disaggregation-mode prefill --disaggregation-bootstrap-port 8998 {attention} 0 {at}"
            )),
            Some(format!(
                "8000 --disaggregation-mode prefill --disaggregation-bootstrap-port 8998 {attention} 1 {at}"
            )),
        ),
    ] {
        let effective = composed(&shipped(), &with(spec.clone(), json!({}))).unwrap();
        let spec = &effective.spec;
        let half = spec.prefill.as_ref();
        let pods = [
            (spec.workload.template.as_deref(), "0", Some(main)),
            (spec.workload.worker.as_deref(), "1", worker),
            (half.and_then(|half| half.template.as_deref()), "0", prefill),
            (half.and_then(|half| half.worker.as_deref()), "1", prefill_worker),
        ];
        for (pod, index, expected) in pods {
            let main = pod.map(|pod| pod.containers.iter().find(|c| c.name == "main").unwrap());
            assert_eq!(main.map(|main| flags_of_sglang(main, index)), expected);
            assert!(main.is_none_or(|main| main.image.as_deref() == Some("lmsysorg/sglang:v0.5.14")));
        }
        let label = half.map(|half| half.labels[ENGINE_TYPE].as_str());
        assert!(label.is_none_or(|label| label == SGLANG.label));
        let sidecars =
            spec.workload.template.as_ref().unwrap().init_containers.as_deref().unwrap_or_default();
        assert_eq!(sidecars.len(), usize::from(half.is_some()));
    }
}

#[test]
fn adapters_of_sglang_have_a_sidecar_on_the_port_of_the_service_and_need_longboats_image() {
    let lora = json!({"adapters": [{"name": "sql", "uri": "hf://a/sql"}]});
    let spec =
        json!({"model": {"uri": "hf://a/b", "name": "b", "lora": lora}, "runtime": "kserve-llm-sglang"});
    let effective = composed(&shipped(), &spec).unwrap();
    let pod = effective.spec.workload.template.as_ref().unwrap();
    let sidecar = &pod.init_containers.as_ref().unwrap()[0];
    assert!(sidecar.command.as_ref().unwrap().contains(&"--enable-ssrf-protection=false".to_owned()));
    assert_eq!(flags_of_sglang(&pod.containers[0], "0"), "8001");
    let port = |probe: &Option<k8s_openapi::api::core::v1::Probe>| {
        serde_json::to_value(probe).unwrap()["httpGet"].clone()
    };
    let expected = json!({"path": "/health", "port": 8001, "scheme": "HTTP"});
    for probe in [&pod.containers[0].liveness_probe, &pod.containers[0].readiness_probe] {
        assert_eq!(port(probe), expected);
    }
    let platform = Platform { images: Images::Reference, ..Platform::default() };
    let error = composed_with(&shipped(), &platform, &spec).unwrap_err();
    assert_eq!(error.reason(), "RuntimeUnsupported");
    assert!(error.to_string().contains("only Longboat's routing sidecar tells the engine"), "{error}");
}

#[test]
fn the_servers_of_tensorrt_llm_and_llama_cpp_start_with_their_flags() {
    let spec = json!({"runtime": "longboat-tensorrt-llm", "parallelism": {"tensor": 4, "pipeline": 2, "expert": true}});
    let effective = composed(&shipped(), &spec).unwrap();
    let words = started(main_container(&effective.spec), "trtllm-serve", "0").join(" ");
    assert_eq!(
        words,
        "serve /mnt/models --served_model_name b --port 8000 --host 0.0.0.0 --config /tmp/trtllm.yaml --tp_size 4 \
         --pp_size 2 --ep_size 4"
    );
    let spec = json!({"runtime": "longboat-llama-cpp", "template": {"containers": [{"name": "main", "args": ["-c", "4096"]}]}});
    let effective = composed(&shipped(), &spec).unwrap();
    let words = started(main_container(&effective.spec), "llama-server", "0").join(" ");
    assert_eq!(words, "--model /mnt/models --alias b --port 8000 --host 0.0.0.0 --metrics -c 4096");
}
