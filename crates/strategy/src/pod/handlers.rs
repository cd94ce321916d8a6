//! Validation of lifecycle hooks and probes.

use serde_json::json;

use crate::{
    Field,
    checks::{self, first_of, not_negative, port_name, required_port, within},
};

/// The handlers of a hook, in the order in which kube-apiserver checks them. It ignores all but the first.
const HOOK_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];
/// The handlers of a probe, likewise.
const PROBE_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];

/// Validates the hooks and probes of a container. `grace` is the pod's grace period in seconds.
pub(super) fn validate(container: &Field<'_>, grace: i64) {
    for action in ["lifecycle.postStart", "lifecycle.preStop"].map(|hook| container.at(hook)) {
        if action.is_object() {
            handler(&action, &HOOK_HANDLERS, grace);
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container[kind].is_object() {
            probe(kind, &container.at(kind), grace);
        }
    }
}

fn probe(kind: &str, probe: &Field<'_>, grace: i64) {
    handler(probe, &PROBE_HANDLERS, grace);
    for key in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        not_negative(&probe.at(key));
    }
    let (successes, grace) = (probe.at("successThreshold"), probe.at("terminationGracePeriodSeconds"));
    if kind != "readinessProbe" {
        within(&successes, 1..=1, "must be 1");
    }
    within(&grace, 1.., "must be greater than 0");
    if kind == "readinessProbe" && grace.is_number() {
        grace.invalid("must not be set for readinessProbes");
    }
}

fn handler(action: &Field<'_>, known: &[&str], grace: i64) {
    let Some(kind) = first_of(action, known, "handler type") else {
        action.required("must specify a handler type");
        return;
    };
    let handler = action.at(kind);
    match kind {
        "exec" => {
            if handler.list("command").is_empty() {
                handler.at("command").required("");
            }
        }
        "sleep" => {
            let seconds = handler["seconds"].as_i64().unwrap_or(0);
            if !(0..=grace).contains(&seconds) {
                let detail =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                handler.invalid_as(seconds, detail);
            }
        }
        _ => {
            let port = handler.at("port");
            if port.is_null() {
                required_port(&port);
            } else {
                checks::port(&port);
            }
            port_name(&port);
            handler.at("scheme").one_of(&["HTTP", "HTTPS"]);
            for header in handler.list("httpHeaders") {
                header_name(&handler.at("httpHeaders").with(&header["name"]));
            }
        }
    }
}

fn header_name(name: &Field<'_>) {
    let text = name.as_text();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        let detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
        name.invalid_as(json!(text), detail);
    }
}
