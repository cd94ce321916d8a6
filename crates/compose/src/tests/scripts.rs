//! The start scripts of our presets start the server with the same arguments as the reference's (recorded in `starts`). They
//! run in a real bash with a fake server.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use longboat_golden::golden;
use longboat_key::Namespace;
use serde_json::{Value, json};

use super::recordings::{config_set, inputs, platform, recorded_presets, remark, service};
use crate::{PresetNames, compose, kv_cache::SLOT, presets};

/// Returns the command of the container `main` of each pod spec in a composed service, with its place and the value of its KV
/// transfer slot.
fn commands(
    presets: &[longboat_api::v1alpha2::LLMInferenceServiceConfig],
    spec: &Value,
    tls: bool,
) -> Vec<(String, Vec<String>, Option<String>)> {
    let mut settings = platform(&golden(), None).unwrap();
    settings.ingress.enable_tls = tls;
    let service = service(json!({ "metadata": { "name": "chat", "namespace": "team" }, "spec": spec }));
    let configs = config_set(presets);
    let effective = compose(&inputs(&service, &configs, &settings)).unwrap();
    let spec = serde_json::to_value(&effective.spec).unwrap();
    ["/template", "/worker", "/prefill/template", "/prefill/worker"]
        .into_iter()
        .filter_map(|place| {
            let containers = spec.pointer(place)?["containers"].as_array()?;
            let main = containers.iter().find(|c| c["name"] == "main")?;
            let strings =
                |key: &str| -> Vec<String> { serde_json::from_value(main[key].clone()).unwrap_or_default() };
            let mut env = main["env"].as_array().into_iter().flatten();
            let slot = env.find(|variable| variable["name"] == SLOT);
            let slot = slot.and_then(|variable| variable["value"].as_str()).map(ToOwned::to_owned);
            Some((place.to_owned(), [strings("command"), strings("args")].concat(), slot))
        })
        .collect()
}

/// Returns the arguments with which a server of this version is started, one per line.
fn started(
    folder: &Path,
    command: &[String],
    slot: Option<&str>,
    version: &str,
    env: &[(&str, &str)],
) -> String {
    let out = folder.join("out");
    let _ = fs::remove_file(&out);
    let script = format!(
        "#!/bin/bash\nif [ \"$1\" = --version ]; then echo noise; echo 'vllm {version}'; exit; fi\n\
         printf '%s\\n' \"$@\" > {}\nenv | grep -E '^(NCCL|UCX|NVSHMEM)' | sort >> {0}\n",
        out.display()
    );
    executable(&folder.join("vllm"), &script);
    executable(&folder.join("getent"), "#!/bin/bash\n[ \"$2\" = leader ] && echo '10.0.0.9  leader'\n");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let status = Command::new(&command[0])
        .args(&command[1..])
        .env("PATH", path)
        .env("LWS_LEADER_ADDRESS", "leader")
        .envs(env.iter().copied())
        .envs(slot.map(|value| (SLOT, value)))
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    fs::read_to_string(&out).unwrap()
}

pub(super) fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn scratch() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("longboat-scripts-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The services whose servers are started.
fn specs() -> Vec<Value> {
    let args = json!(["--lora-modules", r#"'{"name":"a b","path":"/p"}'"#, "--quoted", "x y", "\"q r\""]);
    let kv = json!({ "cpu": "1Gi", "evictionPolicy": "lru", "secondary": [{ "fileSystem": {} }] });
    let main = json!({ "containers": [{ "name": "main", "args": args }] });
    let grid = json!({ "tensor": 2, "data": 4, "dataLocal": 2, "dataRPCPort": 7000, "expert": true });
    let model = json!({ "uri": "hf://a/b", "name": "org/model" });
    vec![
        json!({ "model": model }),
        json!({ "model": model, "template": main, "kvCacheOffloading": kv, "parallelism": { "tensor": 4 } }),
        json!({ "model": model, "prefill": { "kvCacheOffloading": kv, "parallelism": { "tensor": 2 } } }),
        json!({ "model": model, "prefill": {}, "template": { "terminationGracePeriodSeconds": 120, "containers": [] } }),
        json!({ "model": model, "parallelism": { "data": 2, "dataLocal": 1 }, "worker": {} }),
        json!({
            "model": model, "parallelism": grid, "worker": main, "template": main, "kvCacheOffloading": kv,
            "prefill": { "parallelism": grid, "worker": {}, "kvCacheOffloading": kv },
        }),
    ]
}

/// The versions of the server, with the environment of each.
const WORLDS: [(&str, &[(&str, &str)]); 6] = [
    ("0.15.3", &[]),
    ("0.16.0", &[("VLLM_ADDITIONAL_ARGS", "--max-model-len 10 --x 'a b'")]),
    ("0.18.1rc1", &[("LWS_WORKER_INDEX", "3")]),
    ("0.22.0", &[("VLLM_API_SERVER_COUNT", "2")]),
    ("1.2.0", &[("VLLM_ADDITIONAL_ARGS", "--kv_transfer_config=x")]),
    ("unknown", &[("KSERVE_INFER_ROCE", "true"), ("NCCL_IB_GID_INDEX", "5")]),
];

/// Returns all starts to compare, with the resulting arguments.
fn starts(presets: &[longboat_api::v1alpha2::LLMInferenceServiceConfig]) -> Vec<Value> {
    let folder = scratch();
    let mut starts = Vec::new();
    for spec in specs() {
        for tls in [false, true] {
            for (place, command, slot) in commands(presets, &spec, tls) {
                // Half of the environments for each: with and without TLS, only three flags differ.
                for (version, env) in WORLDS.into_iter().skip(usize::from(tls)).step_by(2) {
                    let text = started(&folder, &command, slot.as_deref(), version, env);
                    starts.push(json!({
                        "spec": spec, "tls": tls, "place": place, "version": version, "env": env,
                        "started": text.lines().collect::<Vec<_>>(),
                    }));
                }
            }
        }
    }
    let _ = fs::remove_dir_all(folder);
    starts
}

/// A start without the rank 0 of a leader (compatibility: start-scripts).
fn without_rank_of_leader(start: &Value) -> Value {
    let mut start = start.clone();
    let arguments = start["started"].as_array_mut().unwrap();
    if !arguments.iter().any(|argument| argument == "--headless") {
        let rank = ["--data-parallel-start-rank", "0"];
        if let Some(at) = arguments.windows(2).position(|pair| pair == rank) {
            arguments.drain(at..at + 2);
        }
    }
    start
}

#[test]
fn our_start_scripts_start_servers_with_the_recorded_arguments() {
    if !Path::new("/bin/bash").exists() {
        longboat_golden::skipped("no /bin/bash");
        return;
    }
    let recorded = golden().join("starts/starts.json").yaml();
    let recorded = recorded.as_array().unwrap();
    let ours = starts(&presets::builtin(&PresetNames::default(), Namespace("kserve")).unwrap());
    assert_eq!(ours.len(), recorded.len());
    for (ours, recorded) in ours.iter().zip(recorded) {
        assert_eq!(ours, &without_rank_of_leader(recorded));
    }
    remark(&format!("start scripts: {} starts equal", ours.len()));
}

#[test]
#[ignore = "writes the recording anew: LONGBOAT_GOLDEN has to have the scripts themselves, LONGBOAT_STARTS names the file"]
fn what_the_scripts_of_the_reference_start_is_written_down() {
    let file = std::env::var_os("LONGBOAT_STARTS").unwrap();
    let starts: Vec<String> =
        starts(&recorded_presets(&golden())).iter().map(|start| format!("  {start}")).collect();
    fs::write(file, format!("[\n{}\n]\n", starts.join(",\n"))).unwrap();
}
