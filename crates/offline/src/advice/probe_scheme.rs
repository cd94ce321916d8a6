//! Probes that speak HTTPS to a server without TLS, or HTTP to one with TLS.

use k8s_openapi::api::core::v1::Container;
use longboat_api::{engine::Engine, v1alpha2::LLMInferenceServiceSpec};

use super::{Advice, MAIN, pods, variables::containers};

/// How the flags of all known engines for a certificate begin.
const TLS_FLAGS: &str = "--ssl-";

/// Finds probes of engines that never succeed. The start scripts of presets have the certificate if the platform asks for TLS.
pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let engines = pods(spec).flat_map(|(path, pod)| containers(&path, pod).collect::<Vec<_>>());
    engines
        .filter(|(_, container)| container.name == MAIN)
        .flat_map(|(path, engine)| wrong(&path, engine))
        .collect()
}

fn wrong(path: &str, engine: &Container) -> Vec<Advice> {
    let words = || engine.command.iter().chain(&engine.args).flatten();
    let values = || engine.env.iter().flatten().filter_map(|variable| variable.value.as_ref());
    let serves_tls = words().chain(values()).any(|word| word.contains(TLS_FLAGS));
    // The image of another server may have a certificate of its own.
    if !serves_tls && Engine::of_command(engine).is_none() {
        return Vec::new();
    }
    let probes = [
        ("livenessProbe", &engine.liveness_probe),
        ("readinessProbe", &engine.readiness_probe),
        ("startupProbe", &engine.startup_probe),
    ];
    let calls =
        probes.into_iter().filter_map(|(kind, probe)| Some((kind, probe.as_ref()?.http_get.as_ref()?)));
    let uses_tls = |scheme: Option<&str>| scheme == Some("HTTPS");
    calls
        .filter(|(_, call)| uses_tls(call.scheme.as_deref()) != serves_tls)
        .map(|(kind, _)| {
            let (message, hint) = if serves_tls {
                (
                    "uses HTTP, but the server is started with a certificate, so that it answers HTTPS only",
                    "set `scheme: HTTPS`, remove the flags `--ssl-…`, or set `enableLLMInferenceServiceTLS: true` in the platform's key `ingress`: then the probes of presets use HTTPS",
                )
            } else {
                (
                    "uses HTTPS, but the server is started without a certificate, so that it answers HTTP only",
                    "remove `scheme: HTTPS`, or set `enableLLMInferenceServiceTLS: true` in the platform's key `ingress`",
                )
            };
            let path = format!("{path}.{kind}.httpGet");
            Advice::warning(path, "ProbeScheme", message.to_owned(), hint.to_owned())
        })
        .collect()
}
