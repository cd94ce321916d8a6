//! OpenTelemetry settings of the model server and the scheduler.

use k8s_openapi::api::core::v1::{Container, EnvVar};
use longboat_api::{engine::Engine, v1alpha2::TracingSpec};

use crate::{context::Context, env, flags};

const NODE_NAME: &str = "OTEL_RESOURCE_ATTRIBUTES_NODE_NAME";
const POD_NAME: &str = "OTEL_RESOURCE_ATTRIBUTES_POD_NAME";

/// Turns tracing on in a model server, if an endpoint for traces is set. Settings of the user stay.
pub(crate) fn server(context: &Context, container: &mut Container, service_name: &str) {
    let Some(tracing) = &context.spec.tracing else { return };
    let Some(endpoint) = tracing.exporter_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty()) else {
        return;
    };
    if let Some(known) = &Engine::of_spec(context.spec).tracing {
        let args = container.args.get_or_insert_default();
        let endpoint = if known.is_host_and_port { host_and_port(endpoint) } else { endpoint };
        let flags = std::iter::once((known.endpoint, Some(endpoint))).chain(known.constant.iter().copied());
        for (flag, value) in flags {
            if !flags::has(args, flag) {
                args.extend([format!("--{flag}")].into_iter().chain(value.map(ToOwned::to_owned)));
            }
        }
    }
    add_env(context, tracing, container, service_name);
}

/// A URL without scheme and path.
fn host_and_port(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// Turns tracing on in the scheduler, even without an endpoint, because the scheduler may use another exporter.
pub(crate) fn scheduler(context: &Context, container: &mut Container) {
    let Some(tracing) = &context.spec.tracing else { return };
    let args = container.args.get_or_insert_default();
    if !flags::has(args, "tracing") {
        args.push("--tracing=true".into());
    }
    add_env(context, tracing, container, "inference-scheduler");
}

fn add_env(context: &Context, tracing: &TracingSpec, container: &mut Container, service_name: &str) {
    let literal = |name: &str, value: Option<String>| EnvVar { name: name.into(), value, value_from: None };
    let attributes = format!(
        "k8s.namespace.name={},k8s.node.name=$({NODE_NAME}),k8s.pod.name=$({POD_NAME}),llmisvc.name={}",
        context.namespace, context.name
    );
    let variables = [
        literal("OTEL_SERVICE_NAME", Some(service_name.to_owned())),
        literal("OTEL_EXPORTER_OTLP_ENDPOINT", tracing.exporter_endpoint.clone()),
        literal("OTEL_TRACES_EXPORTER", tracing.exporter.clone()),
        literal("OTEL_TRACES_SAMPLER", tracing.sampler.clone()),
        literal("OTEL_TRACES_SAMPLER_ARG", tracing.sampler_arg.clone()),
        env::field(NODE_NAME, "spec.nodeName"),
        env::field(POD_NAME, "metadata.name"),
        // After the variables that its value names: the kubelet expands references to earlier ones only.
        literal("OTEL_RESOURCE_ATTRIBUTES", Some(attributes)),
    ];
    for variable in variables {
        env::add(container, variable);
    }
}
