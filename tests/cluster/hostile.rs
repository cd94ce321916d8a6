//! Services and reviews that are made to harm the controller, or to reach others through it.

use serde_json::{Value, json};

use crate::{
    api::block,
    cluster::{ExclusiveCluster, collection, kubectl},
    log::Log,
    snapshot::{children, list},
    tools,
    wait::until,
};

const NAMESPACE: &str = "crafted";
const POLICED: &str = "policed";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

fn service(namespace: &str, name: &str, annotations: &Value, spec: &Value) -> Value {
    let mut spec = spec.clone();
    if spec["model"].is_null() {
        spec["model"] = json!({"uri": "hf://org/model"});
    }
    json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations}, "spec": spec,
    })
}

/// Annotations and specs that name objects of another namespace, or that are paths.
fn crafted() -> Vec<(Value, Value)> {
    let path = "../../victim/secrets/keys";
    let scheduler =
        |scheduler: Value| json!({"router": {"route": {}, "gateway": {}, "scheduler": scheduler}});
    let none = || json!({});
    vec![
        (
            json!({"serving.kserve.io/storageSecretName": path}),
            json!({"model": {"uri": "s3://bucket/model"}}),
        ),
        (none(), json!({"baseRefs": [{"name": path}]})),
        (none(), json!({"baseRefs": [{"name": "victim/base"}]})),
        (none(), scheduler(json!({"config": {"ref": {"name": path, "key": "config"}}}))),
        (none(), scheduler(json!({"pool": {"ref": {"name": path}}}))),
        (
            none(),
            scheduler(
                json!({"template": {"serviceAccountName": path, "containers": [{"name": "main", "image": "x"}]}}),
            ),
        ),
        (
            none(),
            scheduler(
                json!({"template": {"serviceAccountName": "victim:default", "containers": [{"name": "main", "image": "x"}]}}),
            ),
        ),
        (none(), json!({"router": {"route": {"http": {"refs": [{"name": path}]}}}})),
        (
            none(),
            json!({"router": {"route": {}, "gateway": {"refs": [{"name": "own", "namespace": "victim"}]}}}),
        ),
        (
            none(),
            json!({"router": {"route": {}, "gateway": {"refs": [{"name": path, "namespace": "../.."}]}}}),
        ),
        (
            none(),
            json!({"template": {"serviceAccountName": path, "containers": [{"name": "main", "image": "x"}]}}),
        ),
        (
            none(),
            json!({"template": {"containers": [{"name": "main", "env": [
                {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": path, "key": "token"}}},
            ]}]}}),
        ),
        (
            none(),
            json!({"labels": {
            "app.kubernetes.io/name": "other", "app.kubernetes.io/part-of": "other", "app.kubernetes.io/component": "x",
        }, "router": {"scheduler": {}}}),
        ),
        (none(), json!({"model": {"uri": "pvc://../victim/model"}})),
        (none(), json!({"model": {"uri": "hf://org/model", "name": "../../victim"}})),
        (
            none(),
            json!({"template": {"containers": [{"name": "main", "args": ["{{ range $i := .Spec }}{{ . }}{{ end }}"]}]}}),
        ),
    ]
}

#[test]
fn a_crafted_service_makes_the_controller_reach_for_nothing_outside_its_namespace() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let api = &cluster.server.api;
    for namespace in [NAMESPACE, "victim"] {
        cluster.namespace(namespace);
    }
    let log = Log::new(&cluster);
    let mark = log.mark();
    let mut accepted = Vec::new();
    for (index, (annotations, spec)) in crafted().into_iter().enumerate() {
        let object = service(NAMESPACE, &format!("crafted-{index}"), &annotations, &spec);
        let answer = api.post(&collection(&object), &object);
        assert!(answer.status < 500, "{:#}", answer.body);
        if answer.status < 300 {
            accepted.push(format!("{}/crafted-{index}", collection(&object)));
        }
    }
    assert!(accepted.len() > 5, "only {} were accepted", accepted.len());
    for path in &accepted {
        until("the controller has looked at the service", || {
            let service = api.get(path).ok();
            service["status"]["observedGeneration"] == service["metadata"]["generation"]
        });
    }
    for event in log.events(mark) {
        let uri = event["requestURI"].as_str().unwrap_or_default();
        let namespace = event["objectRef"]["namespace"].as_str().unwrap_or_default();
        assert!(["", NAMESPACE, "kserve"].contains(&namespace), "{event:#}");
        assert!(!uri.contains("..") && !uri.to_lowercase().contains("%2f"), "{event:#}");
    }
    assert_eq!(children(api, "victim"), Vec::<String>::new());
    for binding in list(api, "apis/rbac.authorization.k8s.io/v1", "clusterrolebindings") {
        let name = binding["metadata"]["name"].as_str().unwrap();
        if name.starts_with(NAMESPACE) {
            assert_eq!(binding["roleRef"]["name"], "system:auth-delegator");
            assert!(
                binding["subjects"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|subject| subject["namespace"] == NAMESPACE)
            );
        }
    }
    for path in &accepted {
        api.delete(path).ok();
        until("the service is gone", || api.get(path).status == 404);
    }
    assert!(!cluster.controller_log().contains("panicked"));
}

/// Bodies that are no reviews, or reviews of objects that are none.
fn reviews() -> Vec<String> {
    let admission = |request: Value| {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
            .to_string()
    };
    let conversion = |desired: Value, objects: Value| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "1", "desiredAPIVersion": desired, "objects": objects},
        })
        .to_string()
    };
    let deep = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let mut all = vec!["[".repeat(100_000), deep(100_000), "\u{0}".repeat(1000), "{\"a\":1e999}".to_owned()];
    let kind = json!({"group": "serving.kserve.io", "version": "v1alpha2", "kind": "LLMInferenceService"});
    let resource =
        json!({"group": "serving.kserve.io", "version": "v1alpha2", "resource": "llminferenceservices"});
    for object in
        [json!(null), json!(1), json!("x"), json!([]), json!({}), json!({"metadata": 1}), json!({"spec": []})]
    {
        for operation in ["CREATE", "UPDATE", "DELETE", "CONNECT", "NONSENSE"] {
            all.push(admission(json!({
                "uid": "1", "kind": kind, "resource": resource, "operation": operation, "object": object,
                "oldObject": object,
            })));
        }
        all.push(conversion(json!("serving.kserve.io/v1alpha1"), json!([object])));
        all.push(conversion(json!("serving.kserve.io/v1alpha1"), object.clone()));
        all.push(conversion(object.clone(), json!([service(NAMESPACE, "llm", &json!({}), &json!({}))])));
    }
    let nested = admission(
        json!({"uid": "1", "kind": kind, "resource": resource, "operation": "CREATE", "object": "DEEP"}),
    );
    all.push(nested.replace("\"DEEP\"", &deep(50_000)));
    all.push(
        conversion(json!("serving.kserve.io/v1alpha1"), json!(["DEEP"])).replace("\"DEEP\"", &deep(50_000)),
    );
    all.push(conversion(json!("serving.kserve.io/v1alpha1"), json!(vec![json!({}); 20_000])));
    all
}

#[test]
fn hostile_reviews_get_an_answer_and_the_webhooks_go_on() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let api = &cluster.server.api;
    let urls: Vec<String> = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
        .iter()
        .map(|kind| {
            let path = format!("{GROUP}/{kind}/llminferenceservice.serving.kserve.io");
            api.get(&path).ok()["webhooks"][0]["clientConfig"]["url"].as_str().unwrap().to_owned()
        })
        .collect();
    let convert = format!("{}/convert", urls[0].rsplit_once('/').unwrap().0);
    let tls = longboat_tls::insecure_client_config(&[]);
    let client =
        reqwest::Client::builder().tls_backend_preconfigured((*tls).clone()).no_proxy().build().unwrap();
    let mut answers = 0;
    for url in urls.iter().chain([&convert]) {
        for body in reviews() {
            let request = client.post(url).header("content-type", "application/json").body(body.clone());
            let status = block(async { request.send().await.unwrap().status().as_u16() });
            assert!(
                status < 500 && status != 404,
                "{url} answered {status} to {}",
                &body[..body.len().min(300)]
            );
            answers += 1;
        }
    }
    assert!(answers > 150, "{answers}");
    cluster.namespace("reviewed");
    let object = service("reviewed", "sane", &json!({}), &json!({}));
    api.post(&format!("{}?dryRun=All", collection(&object)), &object).ok();
    assert!(!cluster.controller_log().contains("panicked"));
}

#[test]
fn the_policy_of_the_guide_keeps_tenants_from_binding_accounts_to_the_auth_delegator() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let api = &cluster.server.api;
    cluster.namespace(POLICED);
    let guide = std::fs::read_to_string(tools::root().join("docs/guides/tenants.md")).unwrap();
    let policy = guide.split("```yaml\n").filter_map(|block| block.split_once("```")).map(|(block, _)| block);
    let policy: Vec<&str> = policy.filter(|block| block.contains("ValidatingAdmissionPolicy")).collect();
    let file = cluster.server.folder.join("policy.yaml");
    std::fs::write(&file, policy.join("---\n")).unwrap();
    kubectl(&cluster.server, &["apply", "-f", file.to_str().unwrap()]).ok();
    let with = |version: &str, template: Value| {
        let mut object =
            service(POLICED, "llm", &json!({}), &json!({"router": {"scheduler": {"template": template}}}));
        object["apiVersion"] = json!(format!("serving.kserve.io/{version}"));
        api.post(&format!("{}?dryRun=All", collection(&object)), &object)
    };
    let other = json!({"serviceAccountName": "other", "containers": [{"name": "main", "image": "x"}]});
    for version in ["v1alpha1", "v1alpha2"] {
        until("the policy takes effect", || {
            let answer = with(version, other.clone());
            answer.status == 422 && answer.message().contains("serviceAccountName must be empty")
        });
        with(version, json!({"containers": [{"name": "main", "image": "x"}]})).ok();
    }
    let plain = service(POLICED, "llm", &json!({}), &json!({}));
    api.post(&format!("{}?dryRun=All", collection(&plain)), &plain).ok();
    kubectl(&cluster.server, &["delete", "-f", file.to_str().unwrap()]).ok();
    until("the policy is gone", || with("v1alpha2", other.clone()).status < 300);
}
