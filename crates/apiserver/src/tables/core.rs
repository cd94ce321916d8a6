//! Tables for the kinds of core/v1 other than pods.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Column, NAME, Printer, age, containers, labels, list, name, number, or, shortened, since, text, wide,
};

pub(crate) const NAMESPACE: Printer = Printer::new(&[NAME, text("Status"), AGE], |o, now| {
    vec![name(o), or(&o["status"]["phase"], ""), age(o, now)]
});

pub(crate) const CONFIG_MAP: Printer = Printer::new(&[NAME, text("Data"), AGE], |o, now| {
    vec![name(o), Value::from(count(&o["data"]) + count(&o["binaryData"])), age(o, now)]
});

pub(crate) const SECRET: Printer = Printer::new(&[NAME, text("Type"), text("Data"), AGE], |o, now| {
    vec![name(o), o["type"].clone(), Value::from(count(&o["data"])), age(o, now)]
});

pub(crate) const SERVICE_ACCOUNT: Printer = Printer::new(&[NAME, text("Secrets"), AGE], |o, now| {
    vec![name(o), Value::from(list(&o["secrets"]).count()), age(o, now)]
});

pub(crate) const ENDPOINTS: Printer = Printer::new(&[NAME, text("Endpoints"), AGE], |o, now| {
    vec![name(o), Value::from(endpoints(o)), age(o, now)]
});

pub(crate) const POD_TEMPLATE: Printer =
    Printer::new(&[NAME, text("Containers"), text("Images"), text("Pod Labels")], |o, _| {
        let spec = &o["template"]["spec"];
        vec![
            name(o),
            containers(spec, "name"),
            containers(spec, "image"),
            labels(&o["template"]["metadata"]["labels"]),
        ]
    });

pub(crate) const QUOTA: Printer = Printer::new(&[NAME, text("Request"), text("Limit"), AGE], |o, now| {
    let (limits, requests): (Vec<_>, Vec<_>) = o["status"]["hard"]
        .as_object()
        .into_iter()
        .flatten()
        .partition(|(resource, _)| resource.starts_with("limits."));
    let used = |all: Vec<(&String, &Value)>| {
        let used = |resource: &str| o["status"]["used"][resource].as_str().unwrap_or("0");
        let all: Vec<String> = all
            .into_iter()
            .map(|(resource, hard)| {
                format!("{resource}: {}/{}", used(resource), hard.as_str().unwrap_or_default())
            })
            .collect();
        Value::from(all.join(", "))
    };
    vec![name(o), used(requests), used(limits), age(o, now)]
});

fn count(map: &Value) -> usize {
    map.as_object().map_or(0, serde_json::Map::len)
}

pub(crate) const SERVICE: Printer = Printer::new(
    &[NAME, text("Type"), text("Cluster-IP"), text("External-IP"), text("Port(s)"), AGE, wide("Selector")],
    service,
);

fn service(service: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &service["spec"];
    let ports: Vec<String> = list(&spec["ports"])
        .map(|port| {
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            match port["nodePort"].as_i64().filter(|p| *p > 0) {
                Some(node) => format!("{}:{node}/{protocol}", number(&port["port"])),
                None => format!("{}/{protocol}", number(&port["port"])),
            }
        })
        .collect();
    let ports = if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") };
    let mut external: Vec<&str> = list(&spec["externalIPs"]).filter_map(Value::as_str).collect();
    let balancer: Vec<&str> = list(&service["status"]["loadBalancer"]["ingress"])
        .filter_map(|i| i["ip"].as_str().or(i["hostname"].as_str()))
        .collect();
    let shown = match spec["type"].as_str() {
        Some("ExternalName") => spec["externalName"].as_str().unwrap_or("<none>").to_owned(),
        Some("LoadBalancer") => {
            external.extend(balancer);
            if external.is_empty() { "<pending>".to_owned() } else { external.join(",") }
        }
        _ if external.is_empty() => "<none>".to_owned(),
        _ => external.join(","),
    };
    vec![
        name(service),
        or(&spec["type"], ""),
        or(&spec["clusterIP"], "<none>"),
        Value::from(shown),
        Value::from(ports),
        age(service, now),
        labels(&spec["selector"]),
    ]
}

pub(crate) const EVENT: Printer = Printer::new(
    &[
        text("Last Seen"),
        text("Type"),
        text("Reason"),
        text("Object"),
        wide("Subobject"),
        wide("Source"),
        text("Message"),
        wide("First Seen"),
        wide("Count"),
        Column("Name", "string", "name", true),
    ],
    event,
);

fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let pick = |first: &str, second: &str| {
        let time = &event[first];
        if time.is_string() { time.clone() } else { event[second].clone() }
    };
    let first = since(&pick("firstTimestamp", "eventTime"), now);
    let last = if event["series"]["lastObservedTime"].is_string() {
        since(&event["series"]["lastObservedTime"], now)
    } else if event["lastTimestamp"].is_string() {
        since(&event["lastTimestamp"], now)
    } else {
        first.clone()
    };
    let object = &event["involvedObject"];
    let target = format!(
        "{}/{}",
        object["kind"].as_str().unwrap_or_default().to_lowercase(),
        object["name"].as_str().unwrap_or_default()
    );
    let component = event["source"]["component"]
        .as_str()
        .filter(|c| !c.is_empty())
        .or(event["reportingComponent"].as_str())
        .unwrap_or_default();
    let source = match event["source"]["host"].as_str().filter(|h| !h.is_empty()) {
        Some(host) => format!("{component}, {host}"),
        None => component.to_owned(),
    };
    let count = event["series"]["count"].as_i64().or(event["count"].as_i64()).unwrap_or(1);
    vec![
        Value::from(last),
        or(&event["type"], ""),
        or(&event["reason"], ""),
        Value::from(target),
        or(&object["fieldPath"], ""),
        Value::from(source),
        Value::from(event["message"].as_str().unwrap_or_default().trim().to_owned()),
        Value::from(first),
        Value::from(count),
        name(event),
    ]
}

pub(crate) const NODE: Printer = Printer::new(
    &[
        NAME,
        text("Status"),
        text("Roles"),
        AGE,
        text("Version"),
        wide("Internal-IP"),
        wide("External-IP"),
        wide("OS-Image"),
        wide("Kernel-Version"),
        wide("Container-Runtime"),
    ],
    node,
);

fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let ready = list(&node["status"]["conditions"]).find(|c| c["type"] == "Ready");
    let mut status = match ready.and_then(|c| c["status"].as_str()) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    let roles: Vec<&str> = node["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
        .filter(|role| !role.is_empty())
        .collect();
    let address = |kind: &str| {
        list(&node["status"]["addresses"])
            .find(|a| a["type"] == kind)
            .map_or(Value::from("<none>"), |a| a["address"].clone())
    };
    let info = &node["status"]["nodeInfo"];
    vec![
        name(node),
        Value::from(status),
        Value::from(if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }),
        age(node, now),
        or(&info["kubeletVersion"], ""),
        address("InternalIP"),
        address("ExternalIP"),
        or(&info["osImage"], "<unknown>"),
        or(&info["kernelVersion"], "<unknown>"),
        or(&info["containerRuntimeVersion"], "<unknown>"),
    ]
}

fn endpoints(object: &Value) -> String {
    let mut all = Vec::new();
    for subset in list(&object["subsets"]) {
        for address in list(&subset["addresses"]) {
            let ip = address["ip"].as_str().unwrap_or_default();
            let ports: Vec<i64> = list(&subset["ports"]).map(|p| number(&p["port"])).collect();
            if ports.is_empty() {
                all.push(ip.to_owned());
            }
            all.extend(ports.iter().map(|port| format!("{ip}:{port}")));
        }
    }
    shortened(&all)
}

pub(crate) const CLAIM: Printer = Printer::new(
    &[
        NAME,
        text("Status"),
        text("Volume"),
        text("Capacity"),
        text("Access Modes"),
        text("StorageClass"),
        text("VolumeAttributesClass"),
        AGE,
        wide("VolumeMode"),
    ],
    claim,
);

fn claim(claim: &Value, now: Timestamp) -> Vec<Value> {
    let bound = claim["spec"]["volumeName"].as_str().is_some_and(|v| !v.is_empty());
    let status = if claim["metadata"]["deletionTimestamp"].is_string() {
        Value::from("Terminating")
    } else {
        or(&claim["status"]["phase"], "")
    };
    vec![
        name(claim),
        status,
        or(&claim["spec"]["volumeName"], ""),
        if bound { or(&claim["status"]["capacity"]["storage"], "") } else { Value::from("") },
        if bound { Value::from(modes(&claim["status"]["accessModes"])) } else { Value::from("") },
        or(&claim["spec"]["storageClassName"], ""),
        or(&claim["spec"]["volumeAttributesClassName"], "<unset>"),
        age(claim, now),
        or(&claim["spec"]["volumeMode"], "<unset>"),
    ]
}

pub(crate) const VOLUME: Printer = Printer::new(
    &[
        NAME,
        text("Capacity"),
        text("Access Modes"),
        text("Reclaim Policy"),
        text("Status"),
        text("Claim"),
        text("StorageClass"),
        text("VolumeAttributesClass"),
        text("Reason"),
        AGE,
        wide("VolumeMode"),
    ],
    volume,
);

fn volume(volume: &Value, now: Timestamp) -> Vec<Value> {
    let spec = &volume["spec"];
    let claim = match spec["claimRef"]["name"].as_str() {
        Some(name) => format!("{}/{name}", spec["claimRef"]["namespace"].as_str().unwrap_or_default()),
        None => String::new(),
    };
    vec![
        name(volume),
        or(&spec["capacity"]["storage"], ""),
        Value::from(modes(&spec["accessModes"])),
        or(&spec["persistentVolumeReclaimPolicy"], ""),
        or(&volume["status"]["phase"], ""),
        Value::from(claim),
        or(&spec["storageClassName"], ""),
        or(&spec["volumeAttributesClassName"], "<unset>"),
        or(&volume["status"]["reason"], ""),
        age(volume, now),
        or(&spec["volumeMode"], "<unset>"),
    ]
}

fn modes(modes: &Value) -> String {
    let short: Vec<&str> = list(modes)
        .filter_map(Value::as_str)
        .map(|mode| match mode {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            other => other,
        })
        .collect();
    short.join(",")
}
