//! Checks whether the platform settings can be used, and whether the Gateway in them exists.

use longboat_api::names::PLATFORM_CONFIG_MAP;
use longboat_key::Name;

use crate::{
    chain::gateways,
    facts::Facts,
    finding::{Cause, Finding},
};

pub(crate) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    let namespace = facts.snapshot.system_namespace.as_deref();
    let object = format!("ConfigMap {namespace}/{PLATFORM_CONFIG_MAP}");
    if let Some(error) = &facts.platform_error {
        let fix = if facts.snapshot.config_maps.get(namespace, Name(PLATFORM_CONFIG_MAP)).is_some() {
            format!("kubectl edit configmap -n {namespace} {PLATFORM_CONFIG_MAP}")
        } else {
            format!("longboat install --namespace {namespace}")
        };
        findings.push(Cause::new("PlatformSettings", error.clone(), fix).breaks(object));
        return;
    }
    if !facts.snapshot.capabilities.gateway_api {
        return;
    }
    let ingress = &facts.snapshot.platform.ingress;
    let (namespace, name) = (ingress.gateway.namespace.as_deref(), ingress.gateway.name.as_deref());
    if name.is_empty() {
        return;
    }
    if let Some(cause) = gateways::trouble(facts, namespace, name) {
        // Services with their own Gateways do not need it. Other services have their own findings.
        findings.push(cause.threatens(format!("Gateway {namespace}/{name}")));
    }
}
