//! Traces that arrive nowhere.

use longboat_api::v1alpha2::{LLMInferenceServiceSpec, TracingSpec};
use longboat_key::nearest;

use crate::{finding::Advice, pods::main_containers};

/// The schemes of addresses that OpenTelemetry's exporters connect to. vLLM's documentation has the third.
const SCHEMES: [&str; 3] = ["http", "https", "grpc"];
/// The exporters that the picker has. Model servers always send OTLP.
const EXPORTERS: [&str; 3] = ["otlp", "console", "none"];
/// The port at which collectors receive OTLP over HTTP.
const HTTP_PORT: &str = "4318";
/// The port at which they receive OTLP over gRPC.
const GRPC_PORT: &str = "4317";

pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let Some(tracing) = &spec.tracing else { return Vec::new() };
    endpoint(spec, tracing).into_iter().chain(exporter(tracing)).collect()
}

fn endpoint(spec: &LLMInferenceServiceSpec, tracing: &TracingSpec) -> Option<Advice> {
    let written = tracing.exporter_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty())?;
    let advice = |problem: String, hint: String| {
        let message = format!("is \"{written}\", {problem}: no traces arrive");
        Some(Advice::warning("spec.tracing.exporterEndpoint", "TracesLost", message, hint))
    };
    let (scheme, rest) = written.split_once("://").unwrap_or(("", written));
    let authority = rest.split('/').next().unwrap_or_default();
    let is_host = !authority.is_empty() && !authority.contains(char::is_whitespace);
    if !SCHEMES.contains(&&*scheme.to_ascii_lowercase()) || !is_host {
        let hint = if is_host && scheme.is_empty() {
            format!("write `http://{authority}`, or `https://{authority}` if the collector has TLS")
        } else {
            format!("write `http://HOST:{GRPC_PORT}`, with the Service of your collector")
        };
        return advice("which is no URL of a collector".to_owned(), hint);
    }
    // vLLM sends gRPC unless OTEL_EXPORTER_OTLP_TRACES_PROTOCOL says otherwise.
    let chooses_protocol = main_containers(spec).any(|(_, main)| {
        let mut names = main.env.iter().flatten().map(|variable| variable.name.as_str());
        main.env_from.is_some() || names.any(|name| name.starts_with("OTEL_") && name.ends_with("_PROTOCOL"))
    });
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    if port == Some(HTTP_PORT) && !chooses_protocol {
        return advice(
            "whose port receives OTLP over HTTP, and model servers and picker send it over gRPC".to_owned(),
            format!("write port {GRPC_PORT}, unless your collector receives gRPC at {HTTP_PORT}"),
        );
    }
    None
}

fn exporter(tracing: &TracingSpec) -> Option<Advice> {
    let exporter = tracing.exporter.as_deref().filter(|exporter| !exporter.is_empty())?;
    (!EXPORTERS.contains(&exporter)).then(|| {
        let hint = match nearest(EXPORTERS, &exporter.to_ascii_lowercase()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "write `otlp`: a collector can pass the traces on in other forms".to_owned(),
        };
        Advice::warning(
            "spec.tracing.exporter",
            "TracesLost",
            format!(
                "is \"{exporter}\", and no part of the service has this exporter: there are {}",
                EXPORTERS.join(", ")
            ),
            hint,
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

    fn with(tracing: &str, more: &str) -> Vec<String> {
        finding_lines(&service(
            "a",
            &format!("  model: {{uri: 'hf://a/b'}}\n  tracing: {{{tracing}}}\n{more}"),
        ))
    }

    #[test]
    fn an_endpoint_at_which_no_collector_gets_traces_is_warned_about() {
        let start = "6:13 warning spec.tracing.exporterEndpoint: is";
        let at = |endpoint: &str| with(&format!("exporterEndpoint: '{endpoint}'"), "");
        assert_eq!(
            at("otel.observability:4317"),
            [format!(
                "{start} \"otel.observability:4317\", which is no URL of a collector: no traces arrive (write \
                 `http://otel.observability:4317`, or `https://otel.observability:4317` if the collector has TLS)"
            )]
        );
        for endpoint in ["not a url", "tcp://otel:4317", "http://"] {
            assert_eq!(
                at(endpoint),
                [format!(
                    "{start} \"{endpoint}\", which is no URL of a collector: no traces arrive (write `http://HOST:4317`, with the \
                     Service of your collector)"
                )]
            );
        }
        assert_eq!(
            at("http://otel:4318/v1/traces"),
            [format!(
                "{start} \"http://otel:4318/v1/traces\", whose port receives OTLP over HTTP, and model servers and picker send it over \
                 gRPC: no traces arrive (write port 4317, unless your collector receives gRPC at 4318)"
            )]
        );
        for endpoint in ["http://otel:4317", "https://otel", "grpc://otel:4317", "http://$(HOST_IP):4317", ""]
        {
            let found: Vec<String> =
                at(endpoint).into_iter().filter(|one| one.contains("no traces arrive")).collect();
            assert_eq!(found, [""; 0], "{endpoint}");
        }
        // vLLM sends over HTTP if it is told to.
        let protocol = "  template: {containers: [{name: main, env: [{name: OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, value: http/protobuf}]}]}\n";
        assert_eq!(with("exporterEndpoint: 'http://otel:4318/v1/traces'", protocol), [""; 0]);
    }

    #[test]
    fn an_exporter_that_no_part_has_is_warned_about() {
        let start = "6:51 warning spec.tracing.exporter: is";
        let why = "and no part of the service has this exporter: there are otlp, console, none";
        assert_eq!(
            with("exporterEndpoint: 'http://otel:4317', exporter: zipkin", ""),
            [format!(
                "{start} \"zipkin\", {why} (write `otlp`: a collector can pass the traces on in other forms)"
            )]
        );
        assert_eq!(
            with("exporterEndpoint: 'http://otel:4317', exporter: OTLP", ""),
            [format!("{start} \"OTLP\", {why} (did you mean `otlp`?)")]
        );
        assert_eq!(with("exporterEndpoint: 'http://otel:4317', exporter: otlp", ""), [""; 0]);
    }
}
