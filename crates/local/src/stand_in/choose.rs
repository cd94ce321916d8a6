//! Chooses the substitutes for missing objects. Pure functions.

use std::net::SocketAddr;

use longboat_api::labels;
use longboat_gateway::CONTROLLER_NAME;
use longboat_manifest::Document;
use serde_json::{Value, json};

use super::{
    error::StandInError,
    inventory::{ObjectInventory, namespace_of},
    references::{self, Reference, Target},
};

/// The class of Gateways that the local gateway serves.
const CLASS: &str = "longboat";
/// The protocol of substitutes.
const PROTOCOL: &str = "HTTP";
/// The listener protocols that the gateway supports.
const PROTOCOLS: [&str; 2] = [PROTOCOL, "HTTPS"];

/// The result: the changed manifests and the objects to create.
#[derive(Debug, Default)]
pub(super) struct Substitutes {
    /// The manifests, with ports on which the gateway can listen.
    pub(super) documents: Vec<Document>,
    /// The objects to write before the manifests, in this order.
    pub(super) objects: Vec<Value>,
    pub(super) notes: Vec<String>,
}

/// Chooses the substitutes. The gateway listens on `gateway`. `can_listen` says whether it could listen on another port.
pub(super) fn all(
    documents: &[Document],
    mut held: ObjectInventory,
    gateway: SocketAddr,
    can_listen: &dyn Fn(u16) -> bool,
) -> Result<Substitutes, StandInError> {
    held.add_documents(documents);
    let mut chosen = Substitutes { documents: documents.to_vec(), ..Substitutes::default() };
    let mut wanted = SubstituteBuilder { held, gateway, chosen: &mut chosen };
    for document in documents {
        wanted.namespace(namespace_of(document));
    }
    for reference in references::all(documents) {
        wanted.reference(&documents[reference.document], &reference)?;
    }
    for document in &mut chosen.documents {
        if document.text("/kind") == "Gateway" {
            move_ports(document, gateway.port(), can_listen, &mut chosen.notes)?;
            chosen.notes.extend(unused_parameters(document));
        }
    }
    Ok(chosen)
}

/// The substitutes that were chosen so far.
struct SubstituteBuilder<'a> {
    held: ObjectInventory,
    gateway: SocketAddr,
    chosen: &'a mut Substitutes,
}

// === impl SubstituteBuilder ===

impl SubstituteBuilder<'_> {
    fn namespace(&mut self, name: &str) {
        if self.held.has("Namespace", "", name) {
            return;
        }
        self.held.add("Namespace", "", name);
        self.chosen.objects.push(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
        }));
        self.chosen.notes.push(format!("created the missing namespace {name}"));
    }

    fn reference(&mut self, document: &Document, reference: &Reference) -> Result<(), StandInError> {
        let (namespace, name) = (reference.namespace.as_str(), reference.name.as_str());
        let impossible =
            |sentence: String| StandInError::Impossible { origin: document.place(&reference.path), sentence };
        let missing = |kind: &str| {
            impossible(format!(
                "{} {} refers to {kind} {namespace}/{name}, which does not exist: add it to the manifests",
                document.text("/kind"),
                document.text("/metadata/name"),
            ))
        };
        match &reference.to {
            Target::Gateway { listener, port } => {
                self.namespace(namespace);
                self.gateway(namespace, name, listener.as_deref(), port.unwrap_or(self.gateway.port()));
            }
            Target::Class => self.class(name).map_err(impossible)?,
            Target::Service { port, of } if !self.held.has("Service", namespace, name) => match of {
                Some(service) => self.service(namespace, name, *port, service),
                None => return Err(missing("Service")),
            },
            Target::Given(kind) if !self.held.has(kind, namespace, name) => return Err(missing(kind)),
            // The server creates this one with its namespace.
            Target::Account if name != "default" && !self.held.has("ServiceAccount", namespace, name) => {
                self.account(namespace, name);
            }
            Target::Service { .. } | Target::Given(_) | Target::Account => {}
        }
        Ok(())
    }

    /// Adds a Gateway that the local gateway serves. If there is already a substitute with this name, adds the listener to
    /// it.
    fn gateway(&mut self, namespace: &str, name: &str, listener: Option<&str>, port: u16) {
        let listener = json!({
            "name": listener.unwrap_or("http"), "port": port, "protocol": PROTOCOL,
            "allowedRoutes": {"namespaces": {"from": "All"}},
        });
        let standing = self.chosen.objects.iter_mut().find(|object| {
            object["kind"] == "Gateway"
                && object["metadata"]["namespace"] == namespace
                && object["metadata"]["name"] == name
        });
        if let Some(listeners) = standing.and_then(|gateway| gateway["spec"]["listeners"].as_array_mut()) {
            if !listeners.iter().any(|known| known["name"] == listener["name"]) {
                listeners.push(listener);
            }
            return;
        }
        if self.held.has("Gateway", namespace, name) {
            return;
        }
        self.chosen.objects.push(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "gatewayClassName": CLASS,
                "listeners": [listener],
                "addresses": [{"type": "IPAddress", "value": self.gateway.ip().to_string()}],
            },
        }));
        self.chosen.notes.push(format!("the local gateway serves in place of Gateway {namespace}/{name}"));
    }

    fn class(&mut self, name: &str) -> Result<(), String> {
        match self.held.class(name) {
            Some(CONTROLLER_NAME) => Ok(()),
            Some(controller) => Err(format!(
                "controller {controller} of GatewayClass {name} does not run on this machine: remove the \
                 GatewayClass from the manifests, and the local gateway serves in its place, or use class \
                 {CLASS}"
            )),
            None => {
                self.held.add_class(name, CONTROLLER_NAME);
                self.chosen.objects.push(json!({
                    "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
                    "metadata": {"name": name}, "spec": {"controllerName": CONTROLLER_NAME},
                }));
                self.chosen.notes.push(format!("the local gateway serves Gateways of class {name}"));
                Ok(())
            }
        }
    }

    fn account(&mut self, namespace: &str, name: &str) {
        self.held.add("ServiceAccount", namespace, name);
        self.chosen.objects.push(json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace},
        }));
        self.chosen.notes.push(format!(
            "created the missing ServiceAccount {namespace}/{name}, which has no Secrets and no rights"
        ));
    }

    /// Adds a Service that selects the pods of the LLMInferenceService whose route refers to it.
    fn service(&mut self, namespace: &str, name: &str, port: u16, of: &str) {
        self.held.add("Service", namespace, name);
        self.chosen.objects.push(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "selector": {
                    labels::NAME: of,
                    labels::PART_OF: labels::PART_OF_VALUE,
                    labels::KSERVE_COMPONENT: labels::KSERVE_COMPONENT_WORKLOAD,
                },
                "ports": [{"port": port, "targetPort": SERVING_PORT}],
            },
        }));
        self.chosen
            .notes
            .push(format!("created Service {namespace}/{name}, which selects the pods of {namespace}/{of}"));
    }
}

/// Says that parameters of a Gateway, which are about its pods, change nothing here.
fn unused_parameters(gateway: &Document) -> Option<String> {
    let reference = gateway.object.pointer("/spec/infrastructure/parametersRef")?;
    Some(format!(
        "no pods serve Gateway {}/{} on this machine, so {} {}, which its parametersRef names, changes nothing",
        namespace_of(gateway),
        gateway.text("/metadata/name"),
        reference["kind"].as_str().unwrap_or_default(),
        reference["name"].as_str().unwrap_or_default(),
    ))
}

/// The port on which the pods of an LLMInferenceService serve.
const SERVING_PORT: u16 = 8000;

/// Changes listeners to the gateway's port if their own port is not available, such as 80 for most users.
fn move_ports(
    document: &mut Document,
    port: u16,
    can_listen: &dyn Fn(u16) -> bool,
    notes: &mut Vec<String>,
) -> Result<(), StandInError> {
    let named = format!("Gateway {}/{}", namespace_of(document), document.text("/metadata/name"));
    let origin = document.place("spec.listeners");
    let listeners = document.object.pointer_mut("/spec/listeners").and_then(Value::as_array_mut);
    let Some(listeners) = listeners.filter(|listeners| !listeners.is_empty()) else { return Ok(()) };
    let unserved = |protocol: &str| !PROTOCOLS.contains(&protocol);
    if listeners.iter().all(|listener| listener["protocol"].as_str().is_some_and(unserved)) {
        let sentence = format!(
            "{named} has no HTTP or HTTPS listener: add one, because the local gateway serves nothing else"
        );
        return Err(StandInError::Impossible { origin, sentence });
    }
    for listener in listeners.iter_mut().filter(|listener| listener["protocol"] == PROTOCOL) {
        let asked = listener["port"].as_u64().and_then(|asked| u16::try_from(asked).ok());
        let Some(asked) = asked.filter(|asked| *asked != port && !can_listen(*asked)) else { continue };
        listener["port"] = Value::from(port);
        let name = listener["name"].as_str().unwrap_or_default();
        notes.push(format!(
            "listener {name} of {named} uses port {port}: port {asked} is in use, or this user may not \
             listen on it"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(text: &str) -> Vec<Document> {
        longboat_manifest::parse("m.yaml", text).unwrap()
    }

    fn chosen(text: &str) -> Result<Substitutes, StandInError> {
        let mut held = ObjectInventory::default();
        held.add("Namespace", "", "default");
        held.add_class(CLASS, CONTROLLER_NAME);
        all(&documents(text), held, "127.0.0.1:8080".parse().unwrap(), &|port| port > 1024)
    }

    fn service(namespace: &str, router: &str) -> String {
        format!(
            "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {{name: llm, namespace: {namespace}}}\n\
             spec: {{model: {{uri: 'hf://a/b'}}, router: {router}}}\n"
        )
    }

    fn names(chosen: &Substitutes) -> Vec<String> {
        let name = |object: &Value| {
            let part = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            format!("{} {}/{}", part("/kind"), part("/metadata/namespace"), part("/metadata/name"))
        };
        chosen.objects.iter().map(name).collect()
    }

    #[test]
    fn what_is_there_needs_no_stand_in() {
        let chosen = chosen(&service("default", "{route: {}, gateway: {}, scheduler: {}}")).unwrap();
        assert!(chosen.objects.is_empty() && chosen.notes.is_empty(), "{chosen:#?}");
    }

    #[test]
    fn namespaces_and_gateways_are_made_and_said() {
        let router = "{gateway: {refs: [{name: edge, namespace: infra}]}, route: {http: {spec: {parentRefs: [
            {name: own, sectionName: web}, {name: own, sectionName: more, port: 9000}, {name: x, kind: Service}]}}}}";
        let chosen = chosen(&service("production", router)).unwrap();
        assert_eq!(
            names(&chosen),
            ["Namespace /production", "Namespace /infra", "Gateway infra/edge", "Gateway production/own"]
        );
        let listeners = &chosen.objects[3]["spec"]["listeners"];
        assert_eq!((&listeners[0]["name"], &listeners[0]["port"]), (&json!("web"), &json!(8080)));
        assert_eq!((&listeners[1]["name"], &listeners[1]["port"]), (&json!("more"), &json!(9000)));
        assert_eq!(chosen.notes.len(), 4);
    }

    #[test]
    fn accounts_of_pods_are_made() {
        let text = service("default", "{}").replace(
            "router: {}",
            "template: {serviceAccountName: hfsa}, prefill: {template: {serviceAccountName: hfsa}}, \
             worker: {serviceAccountName: default}",
        );
        let chosen = chosen(&text).unwrap();
        assert_eq!(names(&chosen), ["ServiceAccount default/hfsa"]);
        assert_eq!(chosen.notes.len(), 1);
    }

    #[test]
    fn a_layer_refers_to_what_is_beside_the_services_that_build_on_it() {
        let layer = "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\n\
            metadata: {name: base, namespace: kserve}\nspec: {router: {route: {http: {spec: {parentRefs: [{name: own}]}}}}}\n";
        let user = service("default", "{}").replace("spec: {", "spec: {baseRefs: [{name: base}], ");
        let chosen = chosen(&format!("{layer}---\n{user}")).unwrap();
        assert_eq!(names(&chosen), ["Namespace /kserve", "Gateway default/own"]);
    }

    #[test]
    fn the_pods_of_a_service_stand_in_for_a_service_that_its_route_leads_to() {
        let router = "{route: {http: {spec: {rules: [{backendRefs: [{name: mine, port: 80},
            {name: llm-kserve-workload-svc, port: 8000}]}]}}}}";
        let chosen = chosen(&service("default", router)).unwrap();
        assert_eq!(names(&chosen), ["Service default/mine"]);
        assert_eq!(chosen.objects[0]["spec"]["ports"], json!([{"port": 80, "targetPort": 8000}]));
        assert_eq!(chosen.objects[0]["spec"]["selector"]["app.kubernetes.io/name"], "llm");
    }

    #[test]
    fn what_cannot_stand_in_is_refused_at_its_line() {
        let cases = [
            (
                service("default", "{scheduler: {pool: {ref: {name: theirs}}}}"),
                "InferencePool default/theirs, which does not exist",
            ),
            (service("default", "{route: {http: {refs: [{name: theirs}]}}}"), "HTTPRoute default/theirs"),
            (
                "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\n\
                 spec: {rules: [{backendRefs: [{name: theirs, port: 1}]}]}\n"
                    .to_owned(),
                "HTTPRoute r refers to Service default/theirs",
            ),
            (
                service(
                    "default",
                    "{route: {http: {spec: {rules: [{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: shadow, \
                     port: 80}}}]}]}}}}",
                ),
                "LLMInferenceService llm refers to Service default/shadow, which does not exist",
            ),
            (
                "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: g}\n\
                 spec: {gatewayClassName: eg, listeners: [{name: s, port: 443, protocol: TLS}]}\n"
                    .to_owned(),
                "Gateway default/g has no HTTP or HTTPS listener",
            ),
            (
                "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: eg}\n\
                 spec: {controllerName: example.com/eg}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n\
                 metadata: {name: g}\nspec: {gatewayClassName: eg, listeners: [{name: s, port: 80, protocol: HTTP}]}\n"
                    .to_owned(),
                "controller example.com/eg of GatewayClass",
            ),
        ];
        for (text, sentence) in cases {
            let error = chosen(&text).unwrap_err().to_string();
            assert!(error.starts_with("m.yaml:") && error.contains(sentence), "{error}");
        }
    }

    #[test]
    fn parameters_of_a_gateway_are_said_to_change_nothing() {
        let chosen = chosen(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: g}\nspec: {gatewayClassName: longboat, \
             infrastructure: {parametersRef: {group: '', kind: ConfigMap, name: sizes}}, \
             listeners: [{name: web, port: 8080, protocol: HTTP}]}\n",
        )
        .unwrap();
        assert_eq!(
            chosen.notes,
            [
                "no pods serve Gateway default/g on this machine, so ConfigMap sizes, which its parametersRef names, changes nothing"
            ]
        );
    }

    #[test]
    fn a_gateway_of_any_class_is_served_on_a_port_that_can_be_had() {
        let chosen = chosen(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: g}\nspec: {gatewayClassName: eg, \
             listeners: [{name: web, port: 80, protocol: HTTP}, {name: tls, port: 443, protocol: HTTPS}, \
             {name: more, port: 9000, protocol: HTTP}]}\n",
        )
        .unwrap();
        assert_eq!(names(&chosen), ["GatewayClass /eg"]);
        let ports: Vec<&Value> = chosen.documents[0].object["spec"]["listeners"]
            .as_array()
            .unwrap()
            .iter()
            .map(|listener| &listener["port"])
            .collect();
        assert_eq!(ports, [&json!(8080), &json!(443), &json!(9000)]);
        assert!(chosen.notes.iter().any(|note| note.contains("port 80 is in use")), "{:?}", chosen.notes);
    }
}
