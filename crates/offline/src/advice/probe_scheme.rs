//! Probes that speak HTTPS to a server without TLS, or HTTP to one with TLS.

use k8s_openapi::api::core::v1::Container;
use longboat_api::{engine::Engine, v1alpha2::LLMInferenceServiceSpec};

use crate::{
    finding::Advice,
    pods::{main_containers, probes, words},
};

/// How the flags of all known engines for a certificate begin.
const TLS_FLAGS: &str = "--ssl-";

/// Finds probes of engines that never succeed. The start scripts of presets have the certificate if the platform asks for TLS.
pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    main_containers(spec).flat_map(|(path, engine)| wrong(&path, engine)).collect()
}

fn wrong(path: &str, engine: &Container) -> Vec<Advice> {
    // Start scripts of presets take flags from a variable, too.
    let values = engine.env.iter().flatten().filter_map(|variable| variable.value.as_deref());
    let serves_tls = words(engine).chain(values).any(|word| word.contains(TLS_FLAGS));
    // The image of another server may have a certificate of its own.
    if !serves_tls && Engine::of_command(engine).is_none() {
        return Vec::new();
    }
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
    let calls = probes(engine).filter_map(|(kind, probe)| Some((kind, probe.http_get.as_ref()?)));
    calls
        .filter(|(_, call)| (call.scheme.as_deref() == Some("HTTPS")) != serves_tls)
        .map(|(kind, _)| Advice::warning(format!("{path}.{kind}.httpGet"), "ProbeScheme", message, hint))
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{findings, service};

    #[test]
    fn a_probe_that_the_server_does_not_understand_is_warned_about() {
        let probe = |scheme: &str, container: &str| {
            let lines = format!(
                "  model: {{uri: 'hf://a/b', name: q}}
  template:
    containers:
    - name: main
      livenessProbe: {{httpGet: {{path: /health, port: 8000, scheme: {scheme}}}}}
{container}"
            );
            let findings = findings(&service("a", &lines));
            findings.into_iter().filter(|finding| finding.reason == "ProbeScheme").collect::<Vec<_>>()
        };
        let wrong = probe("HTTPS", "");
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert_eq!(
            (wrong[0].line, &*wrong[0].path),
            (Some(9), "spec.template.containers[0].livenessProbe.httpGet")
        );
        assert_eq!(probe("HTTP", ""), []);
        // All three probes: those of the preset use HTTP.
        assert_eq!(probe("HTTP", "      args: [--ssl-certfile=/c.pem]\n").len(), 3);
        assert_eq!(probe("HTTPS", "      command: [my-server]\n"), []);
    }
}
