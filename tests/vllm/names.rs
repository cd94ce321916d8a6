//! `names.json`: the environment variables, connectors of KV caches and settings that vLLM knows.

use std::process::Command;

use longboat_golden::vllm::Names;
use serde_json::Value;

use crate::install::{Install, check};

/// Prints the names. Logs come before them.
const SCRIPT: &str = "
import dataclasses, json
from vllm import envs
from vllm.config import KVEventsConfig, KVTransferConfig
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.v1.kv_offload.factory import OffloadingSpecFactory
fields = lambda config: [field.name for field in dataclasses.fields(config)]
print(json.dumps({
    'variables': list(envs.environment_variables),
    'connectors': [*KVConnectorFactory._registry, *OffloadingSpecFactory._registry],
    'settings': [*fields(KVTransferConfig), *fields(KVEventsConfig)],
}))
";

#[tokio::test]
async fn the_recorded_names_are_those_of_this_vllm() {
    let Some(install) = Install::find().await else { return };
    let mut python = Command::new(install.folder("environment/bin/python3"));
    let output = python.args(["-c", SCRIPT]).envs(install.variables()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let printed: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    check("names.json", &Names::of(&install.version(), &printed).write());
}
