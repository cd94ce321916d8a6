//! Statuses of listeners, and the routes that they accept.

use super::*;
use crate::{certificates::LastUsable, gateways::Protocol, references::References};

fn gateway(listeners: &Value) -> Value {
    json!({"kind": "Gateway", "metadata": {"name": "g", "generation": 3}, "spec": {"listeners": listeners}})
}

fn all(objects: Vec<Value>) -> Updates {
    let observed = observed(objects);
    let ports = Ports::only("127.0.0.1".parse().unwrap(), 80, &observed.gateways);
    statuses(&observed, &ports)
}

/// Returns the conditions of each listener of the first Gateway.
fn conditions(updates: &Updates) -> Vec<Vec<String>> {
    let listeners = &updates.gateways[0].status.as_ref().unwrap().listeners;
    listeners.iter().map(|listener| summary(&listener.conditions)).collect()
}

const FINE: [&str; 4] = [
    "Accepted=True Accepted",
    "Programmed=True Programmed",
    "ResolvedRefs=True ResolvedRefs",
    "Conflicted=False NoConflicts",
];

#[test]
fn each_listener_says_what_is_wrong_with_it() {
    let updates = all(vec![gateway(&json!([
        {"name": "good", "port": 80, "protocol": "HTTP"},
        {"name": "protocol", "port": 1111, "protocol": "INVALID"},
        {"name": "same", "port": 80, "protocol": "HTTP"},
        {"name": "kinds", "port": 80, "protocol": "HTTP", "hostname": "a.example",
            "allowedRoutes": {"kinds": [{"kind": "TCPRoute"}, {"kind": "HTTPRoute"}]}},
        {"name": "port", "port": 81, "protocol": "HTTP"},
        {"name": "filters", "port": 80, "protocol": "HTTP", "hostname": "b.example",
            "filters": {"requests": [{"type": "ExtensionRef", "extensionRef": {"group": "a.example", "kind": "Auth", "name": "x"}}]}},
    ]))]);
    let found = conditions(&updates);
    assert_eq!(found[0], FINE);
    assert_eq!(found[1][..2], ["Accepted=False UnsupportedProtocol", "Programmed=False Invalid"]);
    assert_eq!(
        found[2],
        [
            "Accepted=False HostnameConflict",
            "Programmed=False HostnameConflict",
            "ResolvedRefs=True ResolvedRefs",
            "Conflicted=True HostnameConflict"
        ]
    );
    assert_eq!(found[3][2], "ResolvedRefs=False InvalidRouteKinds");
    assert_eq!(found[4][0], "Accepted=False PortUnavailable");
    assert_eq!(found[5][0], "Accepted=False UnsupportedValue");
    let status = updates.gateways[0].status.as_ref().unwrap();
    assert_eq!(
        summary(&status.conditions),
        ["Accepted=True ListenersNotValid", "Programmed=True Programmed"]
    );
    assert!(status.conditions.iter().all(|condition| condition.observed_generation == Some(3)));
    let kinds: Vec<_> = status.listeners.iter().map(|listener| listener.supported_kinds.len()).collect();
    assert_eq!(kinds, [1, 0, 1, 1, 1, 1]);
}

#[test]
fn a_certificate_of_another_namespace_needs_a_grant() {
    let listener = |secret: &str, namespace: &str| {
        gateway(&json!([{"name": "tls", "port": 443, "protocol": "HTTPS",
            "tls": {"certificateRefs": [{"name": secret, "namespace": namespace}]}}]))
    };
    let grant = |name: &str| {
        json!({"kind": "ReferenceGrant", "metadata": {"name": "grant", "namespace": "other"}, "spec": {
            "from": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "ns"}],
            "to": [{"group": "", "kind": "Secret", "name": name}],
        }})
    };
    let mut theirs = secret("theirs", "a.example").0;
    theirs["metadata"]["namespace"] = "other".into();
    let broken = json!({"kind": "Secret", "metadata": {"name": "broken"}, "data": {"tls.crt": "eA==", "tls.key": "eA=="}});
    let resolved = |objects| conditions(&all(objects))[0][2].clone();
    assert_eq!(
        resolved(vec![listener("theirs", "other"), theirs.clone(), grant("theirs")]),
        "ResolvedRefs=True ResolvedRefs"
    );
    for objects in [vec![], vec![grant("another")]] {
        let objects = [vec![listener("theirs", "other"), theirs.clone()], objects].concat();
        assert_eq!(resolved(objects), "ResolvedRefs=False RefNotPermitted");
    }
    for objects in [vec![listener("none", "ns")], vec![listener("broken", "ns"), broken]] {
        assert_eq!(resolved(objects), "ResolvedRefs=False InvalidCertificateRef");
    }
}

#[test]
fn a_certificate_stays_in_use_if_its_secret_gets_a_broken_one_and_no_longer_if_it_is_deleted() {
    let mut gateway = gateway(&json!([
        {"name": "tls", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "own"}]}},
    ]));
    gateway["spec"]["tls"] = json!({"backend": {"clientCertificateRef": {"name": "own"}}});
    let [own, mut broken] = ["a.example", "b.example"].map(|host| secret("own", host).0);
    broken["data"]["tls.crt"] = own["data"]["tls.crt"].clone();
    let mut last_usable = LastUsable::default();
    let mut see = |secret: Option<&Value>| {
        let mut observed = observed([Some(&gateway), secret].into_iter().flatten().cloned());
        observed.former_secrets = last_usable.update(&observed.secrets);
        let mut ports = Ports::only("127.0.0.1".parse().unwrap(), 80, &observed.gateways);
        ports.open.insert(([127, 0, 0, 1], 443).into(), Protocol::Https);
        let status = statuses(&observed, &ports).gateways[0].status.clone().unwrap();
        let [programmed, resolved] = [1, 2].map(|at| status.listeners[0].conditions[at].clone());
        let of_gateway = summary(&status.conditions)[2].clone();
        (summary(&[programmed, resolved.clone()]), of_gateway, resolved.message)
    };
    let (listener, of_gateway, _) = see(Some(&own));
    assert_eq!(listener, FINE[1..3]);
    assert_eq!(of_gateway, "ResolvedRefs=True ResolvedRefs");
    for _ in 0..2 {
        let (listener, of_gateway, message) = see(Some(&broken));
        assert_eq!(listener, ["Programmed=True Programmed", "ResolvedRefs=False InvalidCertificateRef"]);
        assert_eq!(of_gateway, "ResolvedRefs=False InvalidClientCertificateRef");
        assert!(
            message.starts_with("Secret ns/own: ") && message.ends_with("it had before stays in use"),
            "{message}"
        );
    }
    assert_eq!(see(Some(&own)).0, FINE[1..3]);
    assert!(see(None).0[0].starts_with("Programmed=False"));
    assert!(see(Some(&broken)).0[0].starts_with("Programmed=False"));
}

#[test]
fn the_secrets_of_the_listeners_of_a_gateway_have_a_limit() {
    let listener = |name: &str, protocol: &str, count: usize| {
        let names: Vec<_> = (0..count).map(|number| json!({"name": format!("{name}-{number}")})).collect();
        json!({"name": name, "port": 443, "protocol": protocol, "hostname": format!("{name}.example"),
            "tls": {"certificateRefs": names}})
    };
    let set = json!({"kind": "ListenerSet", "metadata": {"name": "set"}, "spec": {"parentRef": {"name": "g"},
        "listeners": [listener("b", "HTTPS", 300), listener("c", "HTTPS", 1), listener("d", "HTTP", 1)]}});
    let mut gateway = gateway(&json!([listener("a", "HTTPS", 300)]));
    gateway["spec"]["allowedListeners"] = json!({"namespaces": {"from": "Same"}});
    let secrets = References::new(&observed([gateway.clone(), set.clone()])).secrets;
    let of = |listener: &str| secrets.iter().filter(|secret| secret.name.starts_with(listener)).count();
    assert_eq!(["a-", "b-", "c-", "d-"].map(of), [300, 212, 0, 0]);
    let listeners = all(vec![gateway, set]).listener_sets.remove(0).status.unwrap().listeners;
    let message = &listeners[1].conditions[2].message;
    assert!(message.starts_with("Secret ns/c-0 is not read, because the listeners before"), "{message}");
}

#[test]
fn listeners_of_sets_come_after_those_of_the_gateway_if_it_allows_them() {
    let set = |name: &str, hosts: &[&str]| {
        let listener = |host: &&str| json!({"name": host, "port": 80, "protocol": "HTTP", "hostname": host});
        let listeners: Vec<_> = hosts.iter().map(listener).collect();
        json!({"kind": "ListenerSet", "metadata": {"name": name}, "spec": {"parentRef": {"name": "g"}, "listeners": listeners}})
    };
    let route = json!({"kind": "HTTPRoute", "metadata": {"name": "r"}, "spec": {
        "parentRefs": [{"name": "first", "kind": "ListenerSet"}, {"name": "g"}], "rules": [],
    }});
    let objects = |allowed: Value| {
        let mut gateway =
            gateway(&json!([{"name": "own", "port": 80, "protocol": "HTTP", "hostname": "own.example"}]));
        gateway["spec"]["allowedListeners"] = allowed;
        vec![
            gateway,
            set("first", &["own.example", "a.example"]),
            set("second", &["a.example"]),
            route.clone(),
        ]
    };
    let updates = all(objects(json!({"namespaces": {"from": "Same"}})));
    let sets: Vec<_> = updates
        .listener_sets
        .iter()
        .map(|set| summary(&set.status.as_ref().unwrap().conditions)[0].clone())
        .collect();
    assert_eq!(sets, ["Accepted=True Accepted", "Accepted=False ListenersNotValid"]);
    let first = updates.listener_sets[0].status.as_ref().unwrap();
    let routes: Vec<_> = first.listeners.iter().map(|listener| listener.attached_routes).collect();
    assert_eq!(
        (routes, summary(&first.listeners[0].conditions)[0].as_str()),
        (vec![1, 1], "Accepted=False HostnameConflict")
    );
    let status = updates.gateways[0].status.as_ref().unwrap();
    assert_eq!((status.attached_listener_sets, status.listeners[0].attached_routes), (Some(1), 1));
    // The set outlives its Gateway.
    let mut orphan = serde_json::to_value(&updates.listener_sets[0]).unwrap();
    orphan["kind"] = "ListenerSet".into();
    let status = all(vec![orphan]).listener_sets.remove(0).status.unwrap();
    let expected = ["Accepted=False ParentNotAccepted", "Programmed=False ParentNotAccepted"];
    assert_eq!((summary(&status.conditions), status.listeners.len()), (expected.map(Into::into).into(), 0));
    // Without a word of the Gateway, nothing is allowed.
    let updates = all(objects(Value::Null));
    let first = updates.listener_sets[0].status.as_ref().unwrap();
    assert_eq!(summary(&first.conditions), ["Accepted=False NotAllowed", "Programmed=False NotAllowed"]);
}

#[test]
fn a_gateway_that_asks_for_what_cannot_be_is_not_served() {
    let asks = |field: &str, value: Value| {
        let mut gateway = gateway(&json!([{"name": "http", "port": 80, "protocol": "HTTP"}]));
        gateway["spec"][field] = value;
        summary(&all(vec![gateway]).gateways[0].status.as_ref().unwrap().conditions)
    };
    assert_eq!(
        asks("addresses", json!([{"type": "Hostname", "value": "a.example"}])),
        ["Accepted=False UnsupportedAddress", "Programmed=False Invalid"]
    );
    assert_eq!(
        asks("addresses", json!([{"routability": "Cluster"}])),
        ["Accepted=False UnsupportedAddress", "Programmed=False Invalid"]
    );
    assert_eq!(
        asks("addresses", json!([{"value": "192.0.2.1"}])),
        ["Accepted=True Accepted", "Programmed=False AddressNotUsable"]
    );
    assert_eq!(
        asks("addresses", json!([{"value": "127.0.0.1"}])),
        ["Accepted=True Accepted", "Programmed=True Programmed"]
    );
}

#[test]
fn a_reference_to_certificates_of_clients_counts_for_the_listeners_of_its_port() {
    let listener = |name: &str, port: u16| json!({"name": name, "port": port, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "own"}]}});
    let mut gateway = gateway(&json!([
        listener("default", 443), listener("other", 8443), listener("open", 9443),
        {"name": "http", "port": 80, "protocol": "HTTP"},
    ]));
    let validation =
        |kind: &str, name: &str| json!({"caCertificateRefs": [{"group": "", "kind": kind, "name": name}]});
    gateway["spec"]["tls"] = json!({
        "frontend": {
            "default": {"validation": validation("ConfigMap", "absent")},
            "perPort": [
                {"port": 8443, "tls": {"validation": validation("Secret", "ca")}},
                {"port": 9443, "tls": {}},
            ],
        },
        "backend": {"clientCertificateRef": {"name": "absent"}},
    });
    let observed = observed(vec![gateway, secret("own", "a.example").0]);
    let mut ports = Ports::only("127.0.0.1".parse().unwrap(), 80, &observed.gateways);
    ports.open.extend([443, 8443, 9443].map(|port| (([127, 0, 0, 1], port).into(), Protocol::Https)));
    let status = statuses(&observed, &ports).gateways[0].status.clone().unwrap();
    let listeners = status.listeners.iter().map(|listener| (&*listener.name, summary(&listener.conditions)));
    let (accepted, no_ca) = ("Accepted=True Accepted", "Accepted=False NoValidCACertificate");
    let expected = [
        ("default", no_ca, "ResolvedRefs=False InvalidCACertificateRef"),
        ("other", no_ca, "ResolvedRefs=False InvalidCACertificateKind"),
        ("open", accepted, "ResolvedRefs=True ResolvedRefs"),
        ("http", accepted, "ResolvedRefs=True ResolvedRefs"),
    ];
    for ((name, conditions), (of, accepted, resolved)) in listeners.zip(expected) {
        assert_eq!((name, &*conditions[0], &*conditions[2]), (of, accepted, resolved));
    }
    assert_eq!(summary(&status.conditions)[2], "ResolvedRefs=False InvalidClientCertificateRef");
}

#[test]
fn a_gateway_that_lets_everybody_in_in_spite_of_certificates_says_so_until_it_does_not() {
    let mut gateway = gateway(&json!([{"name": "https", "port": 443, "protocol": "HTTPS"}]));
    let validation =
        json!({"mode": "AllowInsecureFallback", "caCertificateRefs": [{"kind": "ConfigMap", "name": "ca"}]});
    gateway["spec"]["tls"] = json!({"frontend": {"default": {"validation": validation}}});
    let says = |gateway: &Value| {
        let conditions = all(vec![gateway.clone()]).gateways[0].status.clone().unwrap().conditions;
        let found = conditions.iter().any(|one| one.type_ == "InsecureFrontendValidationMode");
        (found, json!(conditions))
    };
    let (found, conditions) = says(&gateway);
    assert!(found);
    gateway["status"] = json!({"conditions": conditions});
    gateway["spec"]["tls"] = Value::Null;
    assert!(!says(&gateway).0);
}
