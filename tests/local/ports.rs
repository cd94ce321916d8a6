//! Users' Gateways on further ports of this machine.

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use crate::{http, local_cluster::LocalCluster, tools, wait::until};

/// Returns a Gateway with a free port and a taken one, and a route to the service of the example.
fn manifest(free: u16, taken: u16) -> String {
    format!(
        r"
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: further}}
spec:
  gatewayClassName: longboat
  # Otherwise the Gateway has an address of its own, where no port is taken.
  addresses: [{{type: IPAddress, value: 127.0.0.1}}]
  listeners:
  - {{name: free, port: {free}, protocol: HTTP}}
  - {{name: taken, port: {taken}, protocol: HTTP}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: further}}
spec:
  parentRefs: [{{name: further, sectionName: free}}]
  rules:
  - matches: [{{path: {{type: PathPrefix, value: /further}}}}]
    filters:
    - {{type: URLRewrite, urlRewrite: {{path: {{type: ReplacePrefixMatch, replacePrefixMatch: /}}}}}}
    backendRefs: [{{name: qwen-kserve-workload-svc, port: 8000}}]
"
    )
}

#[test]
fn further_ports_of_gateways_are_served_where_they_are_free_and_said_to_be_taken_where_not() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let [taken_port, port] = [&taken, &free].map(|listener| listener.local_addr().unwrap().port());
    drop(free);
    let file = world.file("further.yaml", &manifest(port, taken_port));
    world.ask(&["apply", "-f", &file]);
    let condition = |listener: usize, kind: &str, field: &str| {
        let path =
            format!("jsonpath={{.status.listeners[{listener}].conditions[?(@.type==\"{kind}\")].{field}}}");
        world.ask(&["get", "gateway", "further", "-o", &path])
    };
    until("the listener on the free port", || condition(0, "Programmed", "status") == "True");
    assert_eq!(condition(1, "Programmed", "status"), "False");
    assert_eq!(condition(1, "Accepted", "reason"), "PortUnavailable");
    let address = format!("http://127.0.0.1:{port}");
    let models = until("the route on the free port", || {
        let answer = http::get(&format!("{address}/further/v1/models"));
        (answer.status == 200).then(|| answer.json())
    });
    assert_eq!(models["object"], "list", "{models}");
    // The listener serves only the routes that are attached to it.
    assert_eq!(http::get(&format!("{address}/elsewhere")).status, 404);
    // A port that becomes free is served. A port that no Gateway names any more is closed.
    drop(taken);
    let more = manifest(taken_port, port);
    world.ask(&["apply", "-f", &world.file("further.yaml", &more.replace("name: taken", "name: late"))]);
    until("the other port", || TcpStream::connect((Ipv4Addr::LOCALHOST, taken_port)).ok().map(drop));
    until("the route on the other port", || {
        let answer = http::get(&format!("http://127.0.0.1:{taken_port}/further/v1/models"));
        answer.status == 200
    });
    world.ask(&["delete", "-f", &file]);
    until("the port is closed", || TcpListener::bind((Ipv4Addr::LOCALHOST, taken_port)).ok().map(drop));
}
