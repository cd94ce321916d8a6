//! Checks whether the platform settings can be used, whether the Gateway in them exists, and whether callers of the shared picker are
//! limited to those that they name.

use std::collections::BTreeSet;

use longboat_api::{names::PLATFORM_CONFIG_MAP, shared_picker::MANAGER as SHARED_PICKER};
use longboat_key::{Name, Namespace};

use crate::{
    chain::gateways,
    facts::Facts,
    finding::{Cause, Finding},
    reinstall,
};

pub(crate) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    let namespace = facts.snapshot.system_namespace.as_deref();
    let object = format!("ConfigMap {namespace}/{PLATFORM_CONFIG_MAP}");
    if let Some(error) = &facts.platform_error {
        findings.push(Cause::new("PlatformSettings", error.clone(), fix(facts)).broken(object));
        return;
    }
    findings.extend(open_picker(facts));
    if !facts.snapshot.capabilities.gateway_api {
        return;
    }
    let ingress = &facts.snapshot.platform.ingress;
    let (namespace, name) = (ingress.gateway.namespace.as_deref(), ingress.gateway.name.as_deref());
    if name.is_empty() {
        return;
    }
    if let Some(cause) = gateways::cause(facts, namespace, name) {
        // Services with their own Gateways do not need it. Other services have their own findings.
        findings.push(cause.warning_about(format!("Gateway {namespace}/{name}")));
    }
}

/// How to correct settings that cannot be used.
pub(crate) fn fix(facts: &Facts) -> String {
    let namespace = facts.snapshot.system_namespace.as_deref();
    if facts.snapshot.config_maps.get(namespace, Name(PLATFORM_CONFIG_MAP)).is_some() {
        format!("kubectl edit configmap -n {namespace} {PLATFORM_CONFIG_MAP}")
    } else {
        reinstall::command(facts, "")
    }
}

/// Settings limit who calls the shared picker, whose NetworkPolicy the installation has written with other settings.
fn open_picker(facts: &Facts) -> Option<Finding> {
    let platform = &facts.snapshot.platform;
    if facts.local || !platform.shared_picker || platform.picker_clients.is_empty() {
        return None;
    }
    let namespace = facts.snapshot.system_namespace.as_deref();
    let policy = facts.network_policies.iter().find(|policy| {
        Namespace::of(&policy.metadata) == namespace && Name::of(&policy.metadata) == Name(SHARED_PICKER)
    });
    let rule = policy.and_then(|policy| policy.spec.as_ref()?.ingress.as_ref()?.first());
    let peers = rule.and_then(|rule| rule.from.as_ref()).into_iter().flatten();
    let selectors = peers.filter_map(|peer| peer.namespace_selector.as_ref()?.match_expressions.as_ref());
    let allowed: BTreeSet<&String> =
        selectors.flatten().flat_map(|expression| expression.values.iter().flatten()).collect();
    if allowed == platform.picker_clients.iter().collect() {
        return None;
    }
    let clients = platform.picker_clients.join(",");
    let who = if allowed.is_empty() {
        "everybody".to_owned()
    } else {
        let allowed: Vec<&str> = allowed.into_iter().map(String::as_str).collect();
        format!("pods of {}", allowed.join(", "))
    };
    let cause = format!(
        "pickerClients is [{clients}], but NetworkPolicy {SHARED_PICKER} lets {who} call the shared picker"
    );
    let values = format!("--set platform.settings.longboat.pickerClients='[{clients}]'");
    let fix = format!("{}: then the policy follows the setting", reinstall::command(facts, &values));
    let object = format!("NetworkPolicy {namespace}/{SHARED_PICKER}");
    Some(Cause::new("PickerClientsNotEnforced", cause, fix).warning_about(object))
}
