//! Tables for the kinds of core/v1 other than pods.

use jiff::Timestamp;
use serde_json::Value;

use super::printer::{
    AGE, Column, NAME, Printer, age, containers, labels, list, name, number, or, printer, shortened, since,
    text, wide,
};

pub(crate) const NAMESPACE: Printer = printer!(|o, now|
    NAME => name(o),
    text("Status") => or(&o["status"]["phase"], ""),
    AGE => age(o, now),
);

pub(crate) const CONFIG_MAP: Printer = printer!(|o, now|
    NAME => name(o),
    text("Data") => count(&o["data"]) + count(&o["binaryData"]),
    AGE => age(o, now),
);

pub(crate) const SECRET: Printer = printer!(|o, now|
    NAME => name(o),
    text("Type") => o["type"].clone(),
    text("Data") => count(&o["data"]),
    AGE => age(o, now),
);

pub(crate) const SERVICE_ACCOUNT: Printer = printer!(|o, now|
    NAME => name(o),
    text("Secrets") => list(&o["secrets"]).count(),
    AGE => age(o, now),
);

pub(crate) const ENDPOINTS: Printer = printer!(|o, now|
    NAME => name(o),
    text("Endpoints") => endpoints(o),
    AGE => age(o, now),
);

pub(crate) const POD_TEMPLATE: Printer = printer!(|o, _now|
    NAME => name(o),
    text("Containers") => containers(&o["template"]["spec"], "name"),
    text("Images") => containers(&o["template"]["spec"], "image"),
    text("Pod Labels") => labels(&o["template"]["metadata"]["labels"]),
);

pub(crate) const QUOTA: Printer = printer!(|o, now|
    NAME => name(o),
    text("Request") => used(o, false),
    text("Limit") => used(o, true),
    AGE => age(o, now),
);

/// Returns the use of limits, or that of requests.
fn used(quota: &Value, limits: bool) -> String {
    let hard = quota["status"]["hard"].as_object().into_iter().flatten();
    let all: Vec<String> = hard
        .filter(|(resource, _)| resource.starts_with("limits.") == limits)
        .map(|(resource, hard)| {
            let used = quota["status"]["used"][resource].as_str().unwrap_or("0");
            format!("{resource}: {used}/{}", hard.as_str().unwrap_or_default())
        })
        .collect();
    all.join(", ")
}

fn count(map: &Value) -> usize {
    map.as_object().map_or(0, serde_json::Map::len)
}

pub(crate) const SERVICE: Printer = printer!(|o, now|
    NAME => name(o),
    text("Type") => or(&o["spec"]["type"], ""),
    text("Cluster-IP") => or(&o["spec"]["clusterIP"], "<none>"),
    text("External-IP") => external_addresses(o),
    text("Port(s)") => ports(o),
    AGE => age(o, now),
    wide("Selector") => labels(&o["spec"]["selector"]),
);

fn ports(service: &Value) -> String {
    let ports: Vec<String> = list(&service["spec"]["ports"])
        .map(|port| {
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            match port["nodePort"].as_i64().filter(|p| *p > 0) {
                Some(node) => format!("{}:{node}/{protocol}", number(&port["port"])),
                None => format!("{}/{protocol}", number(&port["port"])),
            }
        })
        .collect();
    if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") }
}

fn external_addresses(service: &Value) -> String {
    let spec = &service["spec"];
    let mut external: Vec<&str> = list(&spec["externalIPs"]).filter_map(Value::as_str).collect();
    let balancer = list(&service["status"]["loadBalancer"]["ingress"])
        .filter_map(|i| i["ip"].as_str().or(i["hostname"].as_str()));
    match spec["type"].as_str() {
        Some("ExternalName") => spec["externalName"].as_str().unwrap_or("<none>").to_owned(),
        Some("LoadBalancer") => {
            external.extend(balancer);
            if external.is_empty() { "<pending>".to_owned() } else { external.join(",") }
        }
        _ if external.is_empty() => "<none>".to_owned(),
        _ => external.join(","),
    }
}

pub(crate) const EVENT: Printer = printer!(|o, now|
    text("Last Seen") => last_seen(o, now),
    text("Type") => or(&o["type"], ""),
    text("Reason") => or(&o["reason"], ""),
    text("Object") => format!(
        "{}/{}",
        o["involvedObject"]["kind"].as_str().unwrap_or_default().to_lowercase(),
        o["involvedObject"]["name"].as_str().unwrap_or_default()
    ),
    wide("Subobject") => or(&o["involvedObject"]["fieldPath"], ""),
    wide("Source") => source(o),
    text("Message") => o["message"].as_str().unwrap_or_default().trim(),
    wide("First Seen") => first_seen(o, now),
    wide("Count") => o["series"]["count"].as_i64().or(o["count"].as_i64()).unwrap_or(1),
    Column("Name", "string", "name", true) => name(o),
);

fn first_seen(event: &Value, now: Timestamp) -> String {
    let first = &event["firstTimestamp"];
    since(if first.is_string() { first } else { &event["eventTime"] }, now)
}

fn last_seen(event: &Value, now: Timestamp) -> String {
    let last = [&event["series"]["lastObservedTime"], &event["lastTimestamp"]];
    let last = last.into_iter().find(|time| time.is_string());
    last.map_or_else(|| first_seen(event, now), |time| since(time, now))
}

fn source(event: &Value) -> String {
    let component = event["source"]["component"]
        .as_str()
        .filter(|c| !c.is_empty())
        .or(event["reportingComponent"].as_str())
        .unwrap_or_default();
    match event["source"]["host"].as_str().filter(|h| !h.is_empty()) {
        Some(host) => format!("{component}, {host}"),
        None => component.to_owned(),
    }
}

pub(crate) const NODE: Printer = printer!(|o, now|
    { let info = &o["status"]["nodeInfo"]; }
    NAME => name(o),
    text("Status") => readiness(o),
    text("Roles") => roles(o),
    AGE => age(o, now),
    text("Version") => or(&info["kubeletVersion"], ""),
    wide("Internal-IP") => address(o, "InternalIP"),
    wide("External-IP") => address(o, "ExternalIP"),
    wide("OS-Image") => or(&info["osImage"], "<unknown>"),
    wide("Kernel-Version") => or(&info["kernelVersion"], "<unknown>"),
    wide("Container-Runtime") => or(&info["containerRuntimeVersion"], "<unknown>"),
);

fn readiness(node: &Value) -> String {
    let ready = list(&node["status"]["conditions"]).find(|c| c["type"] == "Ready");
    let status = match ready.and_then(|c| c["status"].as_str()) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let cordoned = if node["spec"]["unschedulable"] == true { ",SchedulingDisabled" } else { "" };
    format!("{status}{cordoned}")
}

fn roles(node: &Value) -> String {
    let roles: Vec<&str> = node["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

fn address(node: &Value, kind: &str) -> Value {
    let address = list(&node["status"]["addresses"]).find(|a| a["type"] == kind);
    address.map_or(Value::from("<none>"), |a| a["address"].clone())
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

pub(crate) const CLAIM: Printer = printer!(|o, now|
    {
        let bound = o["spec"]["volumeName"].as_str().is_some_and(|v| !v.is_empty());
        let ends = o["metadata"]["deletionTimestamp"].is_string();
    }
    NAME => name(o),
    text("Status") => if ends { Value::from("Terminating") } else { or(&o["status"]["phase"], "") },
    text("Volume") => or(&o["spec"]["volumeName"], ""),
    text("Capacity") => if bound { or(&o["status"]["capacity"]["storage"], "") } else { Value::from("") },
    text("Access Modes") => if bound { access_modes(&o["status"]["accessModes"]) } else { String::new() },
    text("StorageClass") => or(&o["spec"]["storageClassName"], ""),
    text("VolumeAttributesClass") => or(&o["spec"]["volumeAttributesClassName"], "<unset>"),
    AGE => age(o, now),
    wide("VolumeMode") => or(&o["spec"]["volumeMode"], "<unset>"),
);

pub(crate) const VOLUME: Printer = printer!(|o, now|
    { let spec = &o["spec"]; }
    NAME => name(o),
    text("Capacity") => or(&spec["capacity"]["storage"], ""),
    text("Access Modes") => access_modes(&spec["accessModes"]),
    text("Reclaim Policy") => or(&spec["persistentVolumeReclaimPolicy"], ""),
    text("Status") => or(&o["status"]["phase"], ""),
    text("Claim") => spec["claimRef"]["name"].as_str().map_or_else(String::new, |name| {
        format!("{}/{name}", spec["claimRef"]["namespace"].as_str().unwrap_or_default())
    }),
    text("StorageClass") => or(&spec["storageClassName"], ""),
    text("VolumeAttributesClass") => or(&spec["volumeAttributesClassName"], "<unset>"),
    text("Reason") => or(&o["status"]["reason"], ""),
    AGE => age(o, now),
    wide("VolumeMode") => or(&spec["volumeMode"], "<unset>"),
);

fn access_modes(modes: &Value) -> String {
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
