//! The cause if a Gateway does not forward requests.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use longboat_api::foreign::gateway::Gateway;
use longboat_key::{Key, Name, Namespace, nearest};

use super::{condition, reason_and_message};
use crate::{facts::Facts, finding::Cause, reinstall};

/// Returns what is wrong with a Gateway, or `None` if it works.
pub(crate) fn cause(facts: &Facts, namespace: Namespace<&str>, name: Name<&str>) -> Option<Cause> {
    let Some(gateway) = facts.snapshot.gateways.get(namespace, name) else {
        return Some(missing(facts, namespace, name));
    };
    let status = gateway.status.clone().unwrap_or_default();
    let conditions = &status.conditions;
    let programmed = condition(conditions, "Programmed");
    if programmed.is_some_and(|found| found.status == "True") {
        return status.addresses.is_empty().then(|| {
            let fix = format!(
                "run `kubectl get service -n {namespace}`, and check whether a LoadBalancer still \
                     waits for its address"
            );
            Cause::new(
                "GatewayWithoutAddress",
                "the Gateway has no address, so nothing outside can reach it",
                fix,
            )
        });
    }
    let class_name = gateway.spec.gateway_class_name.as_str();
    let step = format!("Gateway {namespace}/{name}");
    if let Some(cause) = class(facts, class_name) {
        return Some(cause.through(step));
    }
    if let Some(cause) = refused_listeners(gateway).next() {
        return Some(cause.through(step));
    }
    let fix = format!(
        "change what the message names in the Gateway, or start its controller; `kubectl describe gateway -n {namespace} {name}` shows \
         what the controller says then"
    );
    // `Unknown` and `Pending` are the defaults of the Gateway's CRD: no controller has looked at it yet.
    let is_decided = |found: &&Condition| found.status != "Unknown" && found.reason != "Pending";
    let accepted = condition(conditions, "Accepted").filter(|found| found.status != "True");
    Some(if let Some(found) = programmed.or(accepted).filter(is_decided) {
        Cause::new("GatewayNotProgrammed", reason_and_message(found), fix)
    } else {
        let controller = facts
            .snapshot
            .gateway_classes
            .get(Namespace(""), Name(class_name))
            .map_or_else(String::new, |class| class.spec.controller_name.clone());
        let cause = format!("the Gateway is not programmed; its controller `{controller}` may not run");
        Cause::new("GatewayControllerSilent", cause, fix)
    })
}

/// Returns what is wrong with each listener that the Gateway's controller refuses.
pub(crate) fn refused_listeners(gateway: &Gateway) -> impl Iterator<Item = Cause> {
    let (namespace, name) = (Namespace::of(&gateway.metadata), Name::of(&gateway.metadata));
    gateway.status.iter().flat_map(|status| &status.listeners).filter_map(move |listener| {
        let refused = |type_: &str, bad: &str| {
            condition(&listener.conditions, type_).filter(|found| found.status == bad)
        };
        let found = refused("ResolvedRefs", "False")
            .or_else(|| refused("Accepted", "False"))
            .or_else(|| refused("Conflicted", "True"))?;
        let cause = format!("listener {}: {}", listener.name, reason_and_message(found));
        let place = format!("spec.listeners[{}]", listener.name);
        Some(if found.reason == "InvalidCertificateRef" {
            let reference = gateway.spec.listeners.iter().find(|spec| spec.name == listener.name);
            let reference = reference.and_then(|spec| spec.tls.as_ref()?.certificate_refs.first());
            let secret = reference.map_or("NAME", |reference| &reference.name);
            let home = reference.and_then(|reference| reference.namespace.as_deref());
            let fix = format!(
                "write a certificate and its key with `kubectl create secret tls -n {} {secret} --cert=tls.crt --key=tls.key \
                 --dry-run=client -o yaml | kubectl apply -f -`, or name another Secret in {place}",
                home.map_or(namespace, Namespace)
            );
            Cause::new("CertificateUnusable", cause, fix)
        } else {
            Cause::new(
                "ListenerRefused",
                cause,
                format!("correct {place} with `kubectl edit gateway -n {namespace} {name}`"),
            )
        })
    })
}

fn missing(facts: &Facts, namespace: Namespace<&str>, name: Name<&str>) -> Cause {
    let all: Vec<Key> = facts.snapshot.gateways.iter().map(Key::of).collect();
    let meant = nearest(all.iter().map(|gateway| &*gateway.name), &name)
        .and_then(|meant| all.iter().find(|gateway| *gateway.name == *meant));
    let fix = match meant {
        Some(Key { namespace, name }) => format!("did you mean {namespace}/{name}?"),
        None => format!(
            "create the Gateway {namespace}/{name}, or name another one in spec.router.gateway.refs or in \
             `kserveIngressGateway` of ConfigMap inferenceservice-config"
        ),
    };
    Cause::new("GatewayMissing", format!("there is no Gateway {namespace}/{name}"), fix)
}

fn class(facts: &Facts, name: &str) -> Option<Cause> {
    let Some(class) = facts.snapshot.gateway_classes.get(Namespace(""), Name(name)) else {
        let all: Vec<&str> = facts
            .snapshot
            .gateway_classes
            .iter()
            .filter_map(|class| class.metadata.name.as_deref())
            .collect();
        let fix = if all.is_empty() {
            format!(
                "install a Gateway controller, which creates a GatewayClass, such as Envoy Gateway or Istio; or, for Longboat's own, {}",
                reinstall::command(facts, "--set gateway.enabled=true")
            )
        } else {
            format!(
                "set spec.gatewayClassName of the Gateway to one of the classes that exist: {}",
                all.join(", ")
            )
        };
        return Some(Cause::new("GatewayClassMissing", format!("there is no GatewayClass {name}"), fix));
    };
    let conditions = class.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let accepted = condition(conditions, "Accepted")?;
    (accepted.status == "False").then(|| {
        let fix = format!(
            "change what the message names (`kubectl edit gatewayclass {name}`), or name another class in the Gateway's \
             spec.gatewayClassName"
        );
        Cause::new("GatewayClassRefused", reason_and_message(accepted), fix)
            .through(format!("GatewayClass {name}"))
    })
}
