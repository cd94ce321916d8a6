//! A cluster that lacks optional APIs at first: services that do not need them work. Services that need one name the CRD to
//! install, and continue once it is installed.

use serde_json::{Value, json};

use crate::{
    api::Api,
    cluster::ExclusiveCluster,
    definitions::{definition, install_api, remove_api},
    ready::make_ready,
    snapshot::children,
    wait::until,
};

const GATEWAY_API: [&str; 3] = [
    "httproutes.gateway.networking.k8s.io",
    "gateways.gateway.networking.k8s.io",
    "gatewayclasses.gateway.networking.k8s.io",
];
const POOLS: [&str; 2] =
    ["inferencepools.inference.networking.k8s.io", "inferencepools.inference.networking.x-k8s.io"];
const GROUPS: [&str; 1] = ["leaderworkersets.leaderworkerset.x-k8s.io"];

const GATEWAYS: &str = "/apis/gateway.networking.k8s.io/v1/namespaces/kserve/gateways";

#[test]
fn apis_may_come_after_the_services_that_need_them() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let api = &cluster.server.api;
    let gateway = api.get(&format!("{GATEWAYS}/kserve-ingress-gateway")).ok();
    let definitions = |names: &[&str]| names.iter().map(|name| definition(api, name)).collect::<Vec<Value>>();
    let (gateway_api, pools, groups) = (definitions(&GATEWAY_API), definitions(&POOLS), definitions(&GROUPS));
    for name in GATEWAY_API.iter().chain(&POOLS).chain(&GROUPS) {
        remove_api(api, name);
    }
    cluster.namespace("late");
    make(api, "plain", json!({}));
    make(api, "routed", json!({"router": {"route": {}, "gateway": {}, "scheduler": {}}}));
    let worker = json!({"containers": [{"name": "main"}]});
    make(api, "grouped", json!({"parallelism": {"data": 4, "dataLocal": 2}, "worker": worker}));

    until("what needs nothing has its workload", || {
        let children = children(api, "late");
        let made = |name: &str| children.iter().any(|child| child.ends_with(name));
        made("/plain-kserve") && made("/routed-kserve")
    });
    become_ready(api, "plain");
    wait_for(api, "routed", "WorkloadsReady", "True", "");
    wait_for(api, "routed", "RouterReady", "False", "install the Gateway API");
    wait_for(api, "grouped", "WorkerWorkloadReady", "False", "install LWS");

    for definition in &groups {
        install_api(api, definition);
    }
    until("the group of pods comes", || {
        children(api, "late").iter().any(|child| child.ends_with("/grouped-kserve-mn"))
    });
    become_ready(api, "grouped");
    wait_for(api, "routed", "RouterReady", "False", "install the Gateway API");

    for definition in &gateway_api {
        install_api(api, definition);
    }
    let (name, spec) = (&gateway["metadata"]["name"], &gateway["spec"]);
    let again = json!({
        "apiVersion": gateway["apiVersion"], "kind": "Gateway", "metadata": {"name": name}, "spec": spec,
    });
    api.post(GATEWAYS, &again).ok();
    wait_for(api, "routed", "SchedulerWorkloadReady", "False", "InferencePool");

    for definition in &pools {
        install_api(api, definition);
    }
    become_ready(api, "routed");
    for name in ["plain", "routed", "grouped"] {
        wait_for(api, name, "Ready", "True", "");
        api.delete(&path(name)).ok();
        until("the service is gone", || api.get(&path(name)).status == 404);
    }
}

/// Reports children as ready, again and again, until the service is ready: ready children may cause new children.
fn become_ready(api: &Api, name: &str) {
    until(&format!("{name} is ready"), || {
        make_ready(api, &["late", "kserve"].into());
        (condition(api, name, "Ready")?["status"] == "True").then_some(())
    });
}

fn path(name: &str) -> String {
    format!("/apis/serving.kserve.io/v1alpha2/namespaces/late/llminferenceservices/{name}")
}

fn make(api: &Api, name: &str, mut spec: Value) {
    spec["model"] = json!({"uri": "hf://org/model"});
    let object = json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": name, "namespace": "late"}, "spec": spec,
    });
    api.post(path("").trim_end_matches('/'), &object).ok();
}

fn condition(api: &Api, name: &str, type_: &str) -> Option<Value> {
    let service = api.get(&path(name)).ok();
    service["status"]["conditions"].as_array()?.iter().find(|found| found["type"] == type_).cloned()
}

fn wait_for(api: &Api, name: &str, type_: &str, status: &str, said: &str) {
    until(&format!("{type_} of {name} is {status} ({said})"), || {
        let found = condition(api, name, type_)?;
        let message = found["message"].as_str().unwrap_or_default();
        (found["status"] == status && message.contains(said)).then_some(())
    });
}
