//! Checks whether the templates of a config work for an example service.

use longboat_api::engine::VLLM;
use longboat_key::Namespace;
use serde_json::{Value, json};

use crate::{Platform, codec, error::ComposeError, render, schema};

const NAME: &str = "test-llm-preset";
const NAMESPACE: Namespace<&str> = Namespace("test-llm-preset-test");
const POOL: &str = "test-llm-preset-inference-pool";

/// Renders a config in JSON for the example service, as the reference does when a config is written.
///
/// # Errors
///
/// [`ComposeError::TemplateSyntax`], [`ComposeError::TemplateExecution`] or [`ComposeError::Rendered`], with Go's messages.
pub fn check(
    config: &Value,
    platform: &Platform,
    system_namespace: Namespace<&str>,
) -> Result<(), ComposeError> {
    if !render::has_template(config, &|_| true) {
        return Ok(());
    }
    let config = codec::normalise(schema::TYPES.config, config.clone()).map_err(ComposeError::Rendered)?;
    let globals = platform.template_globals(&VLLM, system_namespace, NAMESPACE, POOL);
    let data = json!({schema::SERVICE_KEY: service(), schema::GLOBAL_KEY: globals});
    render::whole(&config, &data).map(drop)
}

/// The example service, for which every config must work: several nodes, prefill, route, gateway and scheduler. It has no
/// tracing, adapters, offloading or scaling, so templates must check whether these are set.
fn service() -> Value {
    let pod = json!({"containers": [{"name": "kserve-container", "resources": {}}]});
    json!({
        "metadata": {
            "name": NAME,
            "namespace": *NAMESPACE,
            "labels": {
                "app.kubernetes.io/name": NAME,
                "app.kubernetes.io/instance": NAME,
                "app.kubernetes.io/component": "llm",
            },
            "annotations": {"serving.kserve.io/model-uri": "llama"},
        },
        "spec": {
            "model": {"uri": "llama", "name": "llama"},
            "replicas": 2,
            "parallelism": {"tensor": 1, "data": 4, "dataLocal": 2, "expert": true},
            "template": pod,
            "worker": pod,
            "router": {
                "route": {"http": {"refs": [{"name": "test-route"}]}},
                "gateway": {"refs": [{"name": "kserve-ingress-gateway", "namespace": "kserve"}]},
                "scheduler": {"pool": {"ref": {"name": POOL}}, "template": pod},
            },
            "prefill": {"replicas": 1, "parallelism": {"tensor": 1, "pipeline": 1}, "template": pod},
        },
        "status": {},
    })
}
