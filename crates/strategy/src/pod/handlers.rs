//! Validation of lifecycle hooks and probes.

use serde_json::Value;

use crate::{
    Cause,
    checks::{self, first_of, items, text},
};

/// The handlers of a hook, in the order in which kube-apiserver checks them. It ignores all but the first.
const HOOK_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];
/// The handlers of a probe, likewise.
const PROBE_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];

/// Validates the hooks and probes of a container. `grace` is the pod's grace period in seconds.
pub(super) fn validate(container: &Value, grace: i64, path: &str, causes: &mut Vec<Cause>) {
    for hook in ["postStart", "preStop"] {
        let action = &container["lifecycle"][hook];
        if action.is_object() {
            handler(action, &HOOK_HANDLERS, grace, &format!("{path}.lifecycle.{hook}"), causes);
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container[kind].is_object() {
            probe(kind, &container[kind], grace, &format!("{path}.{kind}"), causes);
        }
    }
}

fn probe(kind: &str, probe: &Value, grace: i64, path: &str, causes: &mut Vec<Cause>) {
    handler(probe, &PROBE_HANDLERS, grace, path, causes);
    for key in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        checks::not_negative(&probe[key], &format!("{path}.{key}"), causes);
    }
    let (successes, grace) = (&probe["successThreshold"], &probe["terminationGracePeriodSeconds"]);
    if kind != "readinessProbe" && successes.as_i64().is_some_and(|successes| successes != 1) {
        causes.push(Cause::invalid(format!("{path}.successThreshold"), successes, "must be 1"));
    }
    let own = format!("{path}.terminationGracePeriodSeconds");
    if grace.as_i64().is_some_and(|seconds| seconds <= 0) {
        causes.push(Cause::invalid(own.as_str(), grace, "must be greater than 0"));
    }
    if kind == "readinessProbe" && grace.is_number() {
        causes.push(Cause::invalid(own, grace, "must not be set for readinessProbes"));
    }
}

fn handler(action: &Value, known: &[&str], grace: i64, path: &str, causes: &mut Vec<Cause>) {
    let Some(kind) = first_of(action, path, known, "handler type", causes) else {
        causes.push(Cause::required(path, "must specify a handler type"));
        return;
    };
    let (handler, own) = (&action[kind], format!("{path}.{kind}"));
    match kind {
        "exec" => {
            if items(handler, "command").is_empty() {
                causes.push(Cause::required(format!("{own}.command"), ""));
            }
        }
        "sleep" => {
            let seconds = handler["seconds"].as_i64().unwrap_or(0);
            if !(0..=grace).contains(&seconds) {
                let detail =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                causes.push(Cause::invalid(own, &Value::from(seconds), detail));
            }
        }
        _ => {
            let (port, at) = (&handler["port"], format!("{own}.port"));
            let number = if port.is_null() { &Value::from(0) } else { port };
            checks::port(number, &at, causes);
            checks::port_name(port, &at, causes);
            checks::one_of(&handler["scheme"], &format!("{own}.scheme"), &["HTTP", "HTTPS"], causes);
            for header in items(handler, "httpHeaders") {
                header_name(text(header, "name"), &format!("{own}.httpHeaders"), causes);
            }
        }
    }
}

fn header_name(name: &str, path: &str, causes: &mut Vec<Cause>) {
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        let detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
        causes.push(Cause::invalid(path, &Value::from(name), detail));
    }
}
