//! Which connectors move KV cache between pods, as the arguments of a container name them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Container;
use longboat_api::engine::{Engine, VLLM};

/// The connectors of vLLM that move KV cache within one pod.
const LOCAL: [&str; 2] = ["OffloadingConnector", "SimpleCPUOffloadConnector"];

/// Command, arguments and the variable that the presets add to them.
pub fn words(container: &Container) -> String {
    let engine = Engine::of_command(container).unwrap_or(&VLLM);
    let env = container.env.iter().flatten();
    let env = env.filter(|variable| engine.arguments == Some(variable.name.as_str()));
    let parts = container.command.iter().flatten().chain(container.args.iter().flatten());
    let all: Vec<&str> =
        parts.map(String::as_str).chain(env.filter_map(|variable| variable.value.as_deref())).collect();
    all.join(" ")
}

/// The connectors between pods that a container's arguments name.
pub fn connectors(container: &Container) -> BTreeSet<String> {
    let words = words(container);
    // `kv_connector_extra_config` and `kv_connector_module_path` name no connector.
    let named = words.split("kv_connector").skip(1).filter(|rest| !rest.starts_with('_')).map(|rest| {
        // The name follows in JSON, which a shell may have quoted, or after `--kv-transfer-config.kv_connector=`.
        let rest = rest.trim_start_matches(['"', '\'', '\\', ':', '=', ' ']);
        rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>()
    });
    named.filter(|name| !name.is_empty() && !LOCAL.contains(&name.as_str())).collect()
}
