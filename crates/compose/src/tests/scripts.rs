//! The start scripts of our presets do what the reference's do, under a real bash with a fake server.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use super::recordings::{config_set, golden, platform, recorded_presets, remark, service};
use crate::{Inputs, NoConfigMaps, PresetNames, compose, presets};

/// The container `main` of each pod spec that a service composes to, with its place.
fn commands(
    presets: &[longboat_api::v1alpha2::LLMInferenceServiceConfig],
    spec: &Value,
    tls: bool,
) -> Vec<(String, Vec<String>)> {
    let mut settings = platform(&golden().unwrap(), None).unwrap();
    settings.ingress.enable_tls = tls;
    let service = service(json!({ "metadata": { "name": "chat", "namespace": "team" }, "spec": spec }));
    let configs = config_set(presets);
    let effective = compose(&Inputs {
        service: &service,
        configs: &configs,
        config_maps: &NoConfigMaps,
        platform: &settings,
        system_namespace: "kserve",
        preset_names: &PresetNames::default(),
    })
    .unwrap();
    let spec = serde_json::to_value(&effective.spec).unwrap();
    ["/template", "/worker", "/prefill/template", "/prefill/worker"]
        .into_iter()
        .filter_map(|place| {
            let containers = spec.pointer(place)?["containers"].as_array()?;
            let main = containers.iter().find(|c| c["name"] == "main")?;
            let strings =
                |key: &str| -> Vec<String> { serde_json::from_value(main[key].clone()).unwrap_or_default() };
            Some((place.to_owned(), [strings("command"), strings("args")].concat()))
        })
        .collect()
}

/// What a server of some version is started with: its arguments, one a line.
fn started(folder: &Path, command: &[String], version: &str, env: &[(&str, &str)]) -> String {
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
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    fs::read_to_string(&out).unwrap()
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn scratch() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("longboat-scripts-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn our_start_scripts_start_servers_with_the_same_arguments_as_the_recorded_ones() {
    let Some(golden) = golden() else { return };
    if !Path::new("/bin/bash").exists() {
        remark("SKIPPED: no /bin/bash");
        return;
    }
    let theirs = recorded_presets(&golden);
    let ours = presets::builtin(&PresetNames::default(), "kserve").unwrap();
    let args = json!(["--lora-modules", r#"'{"name":"a b","path":"/p"}'"#, "--quoted", "x y", "\"q r\""]);
    let kv = json!({ "cpu": "1Gi", "evictionPolicy": "lru", "secondary": [{ "fileSystem": {} }] });
    let main = json!({ "containers": [{ "name": "main", "args": args }] });
    let grid = json!({ "tensor": 2, "data": 4, "dataLocal": 2, "dataRPCPort": 7000, "expert": true });
    let model = json!({ "uri": "hf://a/b", "name": "org/model" });
    let specs = [
        json!({ "model": model }),
        json!({ "model": model, "template": main, "kvCacheOffloading": kv, "parallelism": { "tensor": 4 } }),
        json!({ "model": model, "prefill": { "kvCacheOffloading": kv, "parallelism": { "tensor": 2 } } }),
        json!({ "model": model, "prefill": {}, "template": { "terminationGracePeriodSeconds": 120, "containers": [] } }),
        json!({ "model": model, "parallelism": { "data": 2, "dataLocal": 1 }, "worker": {} }),
        json!({
            "model": model, "parallelism": grid, "worker": main, "template": main, "kvCacheOffloading": kv,
            "prefill": { "parallelism": grid, "worker": {}, "kvCacheOffloading": kv },
        }),
    ];
    let worlds: [(&str, &[(&str, &str)]); 6] = [
        ("0.15.3", &[]),
        ("0.16.0", &[("VLLM_ADDITIONAL_ARGS", "--max-model-len 10 --x 'a b'")]),
        ("0.18.1rc1", &[("LWS_WORKER_INDEX", "3")]),
        ("0.22.0", &[("VLLM_API_SERVER_COUNT", "2")]),
        ("1.2.0", &[("VLLM_ADDITIONAL_ARGS", "--kv_transfer_config=x")]),
        ("unknown", &[("KSERVE_INFER_ROCE", "true"), ("NCCL_IB_GID_INDEX", "5")]),
    ];
    let folder = scratch();
    let mut compared = 0;
    for spec in &specs {
        for tls in [false, true] {
            let pairs = commands(&ours, spec, tls).into_iter().zip(commands(&theirs, spec, tls));
            for ((place, ours), (_, theirs)) in pairs {
                // Every other world: with and without TLS they differ in nothing but three flags.
                for (version, env) in worlds.into_iter().skip(usize::from(tls)).step_by(2) {
                    let ours = started(&folder, &ours, version, env);
                    let theirs = started(&folder, &theirs, version, env);
                    assert_eq!(ours, theirs, "{place} of {spec} with {version} {env:?}");
                    compared += 1;
                }
            }
        }
    }
    let _ = fs::remove_dir_all(folder);
    remark(&format!("start scripts: {compared} pairs of runs equal"));
}
