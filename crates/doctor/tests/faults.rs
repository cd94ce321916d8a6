//! Every fault that is claimed to be found, seeded into a world in which all is well.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use longboat_compose::{PresetNames, presets};
use longboat_doctor::{Answers, Facts, Finding, Severity, examine, to_text};
use longboat_plan::Snapshot;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap_or_else(|error| panic!("{error}"))
}

fn arc<K: DeserializeOwned>(value: Value) -> Arc<K> {
    Arc::new(object(value))
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

const READY: [(&str, &str, &str, &str); 1] = [("Ready", "True", "", "")];

/// A service in the state that these conditions say.
fn service(conditions: &[(&str, &str, &str, &str)]) -> Value {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(type_, status, reason, message)| condition(type_, status, reason, message))
        .collect();
    json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": "llm", "namespace": "ns", "uid": "u", "generation": 2},
        "spec": {"model": {"uri": "hf://org/model"}, "router": {"route": {}, "gateway": {}, "scheduler": {}}},
        "status": {
            "observedGeneration": 2, "conditions": conditions, "url": "http://gw/ns/llm",
            "workloads": {"primary": {"kind": "Deployment", "name": "llm-kserve"}},
        },
    })
}

fn crd(name: &str, version: &str) -> Value {
    let (plural, group) = name.split_once('.').unwrap();
    json!({
        "metadata": {"name": name},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": "X"},
            "versions": [{"name": version, "served": true, "storage": true}],
        },
        "status": {
            "storedVersions": [version],
            "conditions": [condition("Established", "True", "InitialNamesAccepted", "")],
        },
    })
}

fn pod(name: &str, labels: &Value, status: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns", "labels": labels}, "spec": {"containers": []}, "status": status})
}

fn ready_pod() -> Value {
    pod("llm-kserve-1", &json!({"app": "llm"}), &json!({"conditions": [condition("Ready", "True", "", "")]}))
}

fn waiting(container: &str, reason: &str, message: &str) -> Value {
    json!({"containerStatuses": [{
        "name": container, "image": "example.com/vllm:1", "imageID": "", "ready": false, "restartCount": 3,
        "state": {"waiting": {"reason": reason, "message": message}},
    }]})
}

/// A cluster with one service that works.
fn well() -> Facts {
    let names = PresetNames::default();
    let mut snapshot = Snapshot::empty(Timestamp::now(), Arc::default(), "kserve");
    let mut platform = longboat_compose::Platform::default();
    platform.ingress.gateway_namespace = "kserve".into();
    platform.ingress.gateway_name = "gw".into();
    snapshot.platform = Arc::new(platform);
    snapshot.gateways.insert(arc(json!({
        "metadata": {"name": "gw", "namespace": "kserve", "generation": 1},
        "spec": {"gatewayClassName": "envoy", "listeners": []},
        "status": {
            "addresses": [{"value": "10.0.0.1"}],
            "conditions": [condition("Accepted", "True", "Accepted", ""), condition("Programmed", "True", "Programmed", "")],
        },
    })));
    snapshot.gateway_classes.insert(arc(json!({
        "metadata": {"name": "envoy"}, "spec": {"controllerName": "example.com/gateway"},
        "status": {"conditions": [condition("Accepted", "True", "Accepted", "")]},
    })));
    let parent = json!({"name": "gw", "namespace": "kserve"});
    let taken = [
        condition("Accepted", "True", "Accepted", ""),
        condition("ResolvedRefs", "True", "ResolvedRefs", ""),
    ];
    snapshot.http_routes.insert(arc(json!({
        "metadata": {"name": "llm-kserve-route", "namespace": "ns", "generation": 3},
        "spec": {"parentRefs": [parent]},
        "status": {"parents": [{"parentRef": parent, "controllerName": "example.com/gateway", "conditions": taken}]},
    })));
    snapshot.inference_pools.insert(arc(json!({
        "metadata": {"name": "llm-inference-pool", "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": "llm"}}, "targetPorts": [{"number": 8000}],
                 "endpointPickerRef": {"name": "llm-epp-service", "port": {"number": 9002}}},
        "status": {"parents": [{"parentRef": parent, "conditions": taken}]},
    })));
    snapshot.deployments.insert(arc(json!({
        "metadata": {"name": "llm-kserve", "namespace": "ns"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "llm"}}, "template": {}},
        "status": {"availableReplicas": 1},
    })));
    snapshot.services.insert(arc(json!({
        "metadata": {"name": "llm-kserve-workload-svc", "namespace": "ns"}, "spec": {"selector": {"app": "llm"}},
    })));
    let (pem, _) = certificate(365);
    let ca = longboat_bundle(&pem);
    let webhook = |kind: &str| {
        json!({
            "metadata": {"name": format!("{kind}.serving.kserve.io")},
            "webhooks": [{
                "name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"caBundle": ca},
            }],
        })
    };
    let own = ["llminferenceservices", "llminferenceserviceconfigs"]
        .map(|name| format!("{name}.serving.kserve.io"));
    Facts {
        local: false,
        definitions: own.iter().map(|name| (name.clone(), object(crd(name, "v1alpha2")))).collect(),
        configs: presets::builtin(&names, "kserve").unwrap().into_iter().map(Arc::new).collect(),
        preset_names: names,
        platform_error: None,
        snapshot,
        services: vec![arc(service(&READY))],
        pods: vec![object(ready_pod())],
        events: Vec::new(),
        claims: Vec::new(),
        controller: Some(object(json!({
            "metadata": {"name": "llmisvc-controller-manager", "namespace": "kserve"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "controller"}}, "template": {}},
            "status": {"availableReplicas": 2},
        }))),
        lease: None,
        denied: Vec::new(),
        mutating: vec![object(webhook("llminferenceservice"))],
        validating: ["llminferenceservice", "llminferenceserviceconfig"]
            .map(|kind| object(webhook(kind)))
            .into(),
        admission: None,
        conversion: None,
        answers: BTreeMap::from([(
            "ns/llm".to_owned(),
            Answers { at_url: Some(Ok(200)), at_workload: None },
        )]),
        hidden: Vec::new(),
    }
}

/// A certificate that is valid for some days, and its key.
fn certificate(days: u32) -> (String, String) {
    let leaf = longboat_tls::LeafRequest {
        common_name: "test".into(),
        organization: "test".into(),
        dns_names: Vec::new(),
        ips: Vec::new(),
        days,
        client_auth: false,
    };
    let pair = longboat_tls::self_signed(&leaf).unwrap();
    (pair.certificate_pem, pair.key_pem)
}

/// Bytes as JSON objects of Kubernetes have them.
fn longboat_bundle(pem: &str) -> Value {
    serde_json::to_value(k8s_openapi::ByteString(pem.as_bytes().to_vec())).unwrap()
}

/// A world with one thing wrong.
fn with(change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
    let mut facts = well();
    change(&mut facts);
    examine(&facts)
}

/// A service that is not ready for this reason.
fn unready(facts: &mut Facts, type_: &str, reason: &str, message: &str) {
    let conditions = [("Ready", "False", reason, message), (type_, "False", reason, message)];
    facts.services = vec![arc(service(&conditions))];
}

/// The finding of that word, whose cause and fix say something; what it says about `object`.
#[track_caller]
fn only(findings: &[Finding], fault: &str, object: &str, cause: &str, fix: &str) -> Finding {
    let [finding] = findings else { panic!("expected one finding, got:\n{}", to_text(findings)) };
    assert_eq!(finding.fault, fault, "{finding:#?}");
    assert_eq!(finding.object, object, "{finding:#?}");
    assert!(finding.cause.contains(cause), "{finding:#?}");
    assert!(finding.fix.contains(fix), "{finding:#?}");
    finding.clone()
}

const LLM: &str = "LLMInferenceService ns/llm";

#[test]
fn where_all_is_well_nothing_is_said() {
    assert_eq!(to_text(&with(|_| {})), "");
}

#[test]
fn definitions_that_are_missing_or_of_another_version_are_told() {
    let name = "llminferenceservices.serving.kserve.io";
    let crd_name = format!("CustomResourceDefinition {name}");
    let found = with(|facts| _ = facts.definitions.remove(name));
    only(&found, "DefinitionMissing", &crd_name, "does not know", "longboat install");

    let found = with(|facts| _ = facts.definitions.insert(name.into(), object(crd(name, "v1alpha1"))));
    let faults: Vec<&str> = found.iter().map(|finding| finding.fault).collect();
    assert_eq!(faults, ["VersionMissing", "OldVersionStored"], "{found:#?}");

    let found = with(|facts| {
        let definition = facts.definitions.get_mut(name).unwrap();
        let status = definition.status.as_mut().unwrap();
        status.conditions =
            Some(vec![object(condition("Established", "False", "Conflict", "names are taken"))]);
    });
    only(&found, "DefinitionNotEstablished", &crd_name, "names are taken", "kubectl describe crd");

    let pools = "inferencepools.inference.networking.k8s.io";
    let found = with(|facts| _ = facts.definitions.insert(pools.into(), object(crd(pools, "v1alpha2"))));
    let finding = only(
        &found,
        "VersionMissing",
        &format!("CustomResourceDefinition {pools}"),
        "only v1alpha2",
        "release",
    );
    assert_eq!(finding.severity, Severity::Warning);
}

#[test]
fn a_controller_that_is_not_there_or_does_not_run_is_told() {
    let controller = "Deployment kserve/llmisvc-controller-manager";
    let found = with(|facts| facts.controller = None);
    only(
        &found,
        "ControllerMissing",
        controller,
        "there is no controller",
        "longboat install --namespace kserve",
    );

    let stopped = |facts: &mut Facts| {
        let deployment = facts.controller.as_mut().unwrap();
        deployment.status = None;
        deployment.spec.as_mut().unwrap().replicas = Some(0);
    };
    only(&with(stopped), "ControllerStopped", controller, "scaled to zero", "--replicas=2");

    let found = with(|facts| {
        facts.controller.as_mut().unwrap().status = None;
        let mut broken =
            pod("c", &json!({"app": "controller"}), &waiting("manager", "ImagePullBackOff", "no such tag"));
        broken["metadata"]["namespace"] = json!("kserve");
        facts.pods.push(object(broken));
    });
    only(&found, "ImageNotPulled", controller, "no such tag", "imagePullSecrets");
    let found = with(|facts| facts.controller.as_mut().unwrap().status = None);
    only(&found, "ControllerNotReady", controller, "none of its pods", "kubectl logs -n kserve");
}

#[test]
fn controllers_of_which_none_leads_are_told() {
    let lease = |holder: &str, seconds: i64| {
        let renewed = Timestamp::now() - SignedDuration::from_secs(seconds);
        let spec =
            json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed.to_string()});
        with(|facts| {
            facts.lease =
                Some(object(json!({"metadata": {"name": "l", "namespace": "kserve"}, "spec": spec})));
        })
    };
    assert_eq!(to_text(&lease("a_1", 20)), "");
    let name = "Lease kserve/llminferenceservice-kserve-controller-manager";
    only(
        &lease("a_1", 600),
        "NoLeader",
        name,
        "a_1, which is silent, holds the lease",
        "may it write its Lease",
    );
    only(&lease("", 600), "NoLeader", name, "nobody holds the lease", "kubectl logs -n kserve");
}

#[test]
fn rights_that_are_missing_are_named() {
    let found = with(|facts| facts.denied = vec!["create deployments.apps".into()]);
    let account = "ServiceAccount kserve/llmisvc-controller-manager";
    only(&found, "RightsMissing", account, "create deployments.apps", "longboat install");
}

#[test]
fn webhooks_that_fail_or_are_missing_or_untrusted_are_told() {
    let found = with(|facts| facts.admission = Some("failed calling webhook: connection refused".into()));
    only(
        &found,
        "WebhookFails",
        "Webhooks of LLMInferenceService",
        "connection refused",
        "endpointslices -n kserve",
    );

    let found = with(|facts| facts.conversion = Some("conversion webhook failed".into()));
    only(
        &found,
        "ConversionFails",
        "CustomResourceDefinition llminferenceservices.serving.kserve.io",
        "v1alpha1",
        "install",
    );

    let found = with(|facts| _ = facts.validating.pop());
    let name = "ValidatingWebhookConfiguration llminferenceserviceconfig.serving.kserve.io";
    only(&found, "WebhookMissing", name, "nothing is validated", "longboat install");

    let found = with(|facts| facts.mutating.clear());
    let name = "MutatingWebhookConfiguration llminferenceservice.serving.kserve.io";
    only(&found, "WebhookMissing", name, "defaults", "longboat install");

    let set = |facts: &mut Facts, bundle: Option<Vec<u8>>| {
        let webhooks = facts.mutating[0].webhooks.as_mut().unwrap();
        webhooks[0].client_config.ca_bundle = bundle.map(k8s_openapi::ByteString);
    };
    only(&with(|facts| set(facts, None)), "WebhookUntrusted", name, "caBundle is empty", "cert-manager");

    let (soon, _) = certificate(2);
    let found = with(|facts| set(facts, Some(soon.into_bytes())));
    let finding = only(&found, "CertificateEnds", name, "within a week", "Certificate");
    assert_eq!(finding.severity, Severity::Warning);
}

#[test]
fn settings_and_presets_that_cannot_be_used_are_told() {
    let found = with(|facts| facts.platform_error = Some("ingress: expected an object".into()));
    let name = "ConfigMap kserve/inferenceservice-config";
    only(&found, "PlatformSettings", name, "expected an object", "longboat install");

    let preset = "LLMInferenceServiceConfig kserve/kserve-config-llm-router-route";
    let is_route = |config: &&Arc<longboat_api::v1alpha2::LLMInferenceServiceConfig>| {
        config.metadata.name.as_deref() == Some("kserve-config-llm-router-route")
    };
    let found = with(|facts| facts.configs.retain(|config| !is_route(&config)));
    only(&found, "PresetMissing", preset, "spec.router.route is set", "longboat install");

    let found = with(|facts| {
        let at = facts.configs.iter().position(|config| is_route(&config)).unwrap();
        let mut edited = facts.configs[at].as_ref().clone();
        edited.spec.router = None;
        facts.configs[at] = Arc::new(edited);
    });
    assert_eq!(only(&found, "PresetDiffers", preset, "edited", "longboat diff").severity, Severity::Warning);
}

#[test]
fn layers_that_do_not_combine_lead_to_the_config() {
    let found = with(|facts| {
        let message = "LLMInferenceServiceConfig \"my-tunning\" not found in namespaces [ns kserve]";
        unready(facts, "PresetsCombined", "ConfigNotFound", message);
        let config = json!({"metadata": {"name": "my-tuning", "namespace": "ns"}, "spec": {}});
        facts.configs.push(arc(config));
    });
    let finding = only(&found, "ConfigNotFound", LLM, "my-tunning", "did you mean `my-tuning`?");
    assert_eq!(finding.chain, ["PresetsCombined=False ConfigNotFound"]);

    let found = with(|facts| unready(facts, "PresetsCombined", "CombineBaseError", "can't evaluate field X"));
    only(&found, "LayersDoNotCombine", LLM, "can't evaluate field X", "longboat explain llm -n ns");
    let found = with(|facts| unready(facts, "PresetsCombined", "InvalidRenderedConfig", "spec.x: Invalid"));
    only(&found, "ComposedSpecInvalid", LLM, "spec.x: Invalid", "longboat explain");
    let found = with(|facts| unready(facts, "PresetsCombined", "ValidationUnavailable", "timeout"));
    only(&found, "ValidationUnavailable", LLM, "timeout", "webhooks");
}

/// The pod of the service in this state, and what is said of it.
fn with_pod(status: &Value) -> Vec<Finding> {
    with(|facts| {
        unready(facts, "MainWorkloadReady", "MinimumReplicasUnavailable", "");
        facts.pods = vec![object(pod("llm-kserve-1", &json!({"app": "llm"}), status))];
    })
}

#[test]
fn pods_that_do_not_start_lead_to_image_configuration_memory_or_model() {
    let found = with_pod(&waiting("main", "ImagePullBackOff", "not found"));
    let finding =
        only(&found, "ImageNotPulled", LLM, "example.com/vllm:1 cannot be pulled", "imagePullSecrets");
    let chain = [
        "MainWorkloadReady=False MinimumReplicasUnavailable",
        "Deployment ns/llm-kserve",
        "Pod ns/llm-kserve-1",
    ];
    assert_eq!(finding.chain, chain);

    let found = with_pod(&waiting("main", "CreateContainerConfigError", "secret \"token\" not found"));
    only(&found, "ContainerNotCreated", LLM, "secret \"token\" not found", "create in ns the Secret");
    let found = with_pod(&waiting("main", "NoLocalRole", "nothing here runs this image"));
    only(&found, "ContainerWaits", LLM, "NoLocalRole", "kubectl describe pod -n ns llm-kserve-1");

    let crashed = |container: &str, reason: &str, code: i32, message: &str| {
        let mut status = waiting(container, "CrashLoopBackOff", "back-off");
        status["containerStatuses"][0]["lastState"] =
            json!({"terminated": {"reason": reason, "exitCode": code, "message": message}});
        with_pod(&status)
    };
    let found = crashed("main", "OOMKilled", 137, "");
    only(&found, "OutOfMemory", LLM, "more memory", "resources.limits.memory of container main");
    let found = crashed("main", "Error", 1, "Traceback\nValueError: bad dtype\n");
    only(&found, "ContainerCrashes", LLM, "exit code 1 (3 restarts): ValueError: bad dtype", "--previous");
    let found = crashed("storage-initializer", "Error", 1, "401 Client Error");
    only(&found, "ModelNotFetched", LLM, "401 Client Error", "spec.model.uri");

    let running = json!({"containerStatuses": [{
        "name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": {"running": {}},
    }]});
    only(&with_pod(&running), "PodStarting", LLM, "a model that loads", "kubectl logs");
    let event = |reason: &str, message: &str| {
        object(json!({
            "metadata": {"name": "e", "namespace": "ns"}, "reason": reason, "message": message,
            "involvedObject": {"kind": "Pod", "name": "llm-kserve-1", "namespace": "ns"},
        }))
    };
    let found = with(|facts| {
        unready(facts, "MainWorkloadReady", "Progressing", "");
        facts.pods = vec![object(pod("llm-kserve-1", &json!({"app": "llm"}), &running))];
        facts.events = vec![event("Unhealthy", "Readiness probe failed: 503")];
    });
    only(&found, "ProbeFails", LLM, "Readiness probe failed: 503", "kubectl logs");
    let found = with(|facts| {
        unready(facts, "MainWorkloadReady", "Progressing", "");
        let creating = waiting("main", "ContainerCreating", "");
        facts.pods = vec![object(pod("llm-kserve-1", &json!({"app": "llm"}), &creating))];
        facts.events = vec![event("FailedMount", "secret \"certs\" not found")];
    });
    only(&found, "VolumeNotMounted", LLM, "secret \"certs\" not found", "create in ns");
}

#[test]
fn pods_without_a_node_lead_to_devices_taints_labels_or_volumes() {
    let unscheduled =
        |message: &str| json!({"conditions": [condition("PodScheduled", "False", "Unschedulable", message)]});
    let found = with_pod(&unscheduled("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."));
    only(&found, "PodUnschedulable", LLM, "Insufficient nvidia.com/gpu", "device plugin");
    let found = with_pod(&unscheduled("0/3 nodes are available: 3 Insufficient memory."));
    only(&found, "PodUnschedulable", LLM, "Insufficient memory", "free memory on some node");
    let found = with_pod(&unscheduled("0/1 nodes are available: 1 node(s) had untolerated taint {gpu: }."));
    only(&found, "PodUnschedulable", LLM, "taint", "tolerations");
    let found = with_pod(&unscheduled(
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
    ));
    only(&found, "PodUnschedulable", LLM, "affinity", "nodeSelector");

    let with_claim = |claims: Vec<Value>| {
        with(|facts| {
            unready(facts, "MainWorkloadReady", "Progressing", "");
            let mut waits = pod("p", &json!({"app": "llm"}), &unscheduled("unbound"));
            waits["spec"]["volumes"] =
                json!([{"name": "model", "persistentVolumeClaim": {"claimName": "weights"}}]);
            facts.pods = vec![object(waits)];
            facts.claims = claims.into_iter().map(object).collect();
        })
    };
    only(
        &with_claim(Vec::new()),
        "ClaimMissing",
        LLM,
        "no PersistentVolumeClaim ns/weights",
        "spec.model.uri",
    );
    let pending = json!({"metadata": {"name": "weights", "namespace": "ns"}, "status": {"phase": "Pending"}});
    only(
        &with_claim(vec![pending]),
        "ClaimNotBound",
        LLM,
        "is Pending",
        "kubectl describe pvc -n ns weights",
    );
}

#[test]
fn pods_that_may_not_be_created_lead_to_quota_or_pod_security() {
    let refused = |message: &str| {
        with(|facts| {
            unready(facts, "MainWorkloadReady", "Progressing", "");
            facts.pods.clear();
            facts.snapshot.deployments.insert(arc(json!({
                "metadata": {"name": "llm-kserve", "namespace": "ns"},
                "spec": {"selector": {"matchLabels": {"app": "llm"}}, "template": {}},
                "status": {"conditions": [condition("ReplicaFailure", "True", "FailedCreate", message)]},
            })));
        })
    };
    only(
        &refused("pods is forbidden: exceeded quota: q"),
        "QuotaExceeded",
        LLM,
        "exceeded quota",
        "resourcequota -n ns",
    );
    only(&refused("violates PodSecurity \"restricted\""), "PodSecurity", LLM, "violates", "securityContext");
    only(
        &refused("error looking up serviceaccount ns/x: not found"),
        "AccountMissing",
        LLM,
        "ns/x",
        "serviceAccountName",
    );
    only(&refused("denied by policy"), "PodsRefused", LLM, "denied by policy", "kubectl describe deployment");

    let found = with(|facts| {
        unready(facts, "MainWorkloadReady", "Progressing", "");
        facts.pods.clear();
        let mut deployment = facts.snapshot.deployments.get("ns", "llm-kserve").unwrap().clone();
        deployment.spec.as_mut().unwrap().replicas = Some(0);
        facts.snapshot.deployments.insert(Arc::new(deployment));
    });
    only(&found, "ScaledToZero", LLM, "no pod is asked for", "spec.replicas");
    let found = with(|facts| {
        unready(facts, "MainWorkloadReady", "Progressing", "");
        facts.snapshot.deployments.remove("ns", "llm-kserve");
    });
    only(
        &found,
        "WorkloadMissing",
        LLM,
        "no Deployment ns/llm-kserve",
        "kubectl describe llminferenceservice",
    );
    let found = with(|facts| {
        unready(facts, "MainWorkloadReady", "Progressing", "");
        facts.pods.clear();
    });
    only(&found, "RollingOut", LLM, "on their way", "kubectl describe deployment");
    let found =
        with(|facts| facts.services = vec![arc(service(&[("Ready", "Unknown", "", "nobody knows")]))]);
    only(&found, "NotReady", LLM, "nobody knows", "kubectl describe");
    let found = with(|facts| unready(facts, "MainWorkloadReady", "ReconcileCertsError", "no certificate"));
    only(&found, "ControllerFailed", LLM, "no certificate", "kubectl describe");
    let found = with(|facts| {
        unready(facts, "WorkerWorkloadReady", "Progressing", "");
        facts.snapshot.leader_worker_sets.insert(arc(json!({
            "metadata": {"name": "llm-kserve-mn", "namespace": "ns"},
            "spec": {"leaderWorkerTemplate": {"workerTemplate": {}}},
        })));
    });
    only(&found, "GroupControllerSilent", LLM, "LeaderWorkerSet controller", "lws-system");
}

#[test]
fn a_router_that_is_not_ready_leads_to_gateway_class_route_or_pool() {
    let routed = |facts: &mut Facts| unready(facts, "HTTPRoutesReady", "HTTPRoutesNotReady", "not ready");
    // The route has heard nothing from its Gateway.
    let unheard = |facts: &mut Facts| {
        routed(facts);
        let mut route = facts.snapshot.http_routes.get("ns", "llm-kserve-route").unwrap().clone();
        route.status = None;
        facts.snapshot.http_routes.insert(Arc::new(route));
    };
    let gateway = |facts: &mut Facts, status: Value| {
        let mut gateway = facts.snapshot.gateways.get("kserve", "gw").unwrap().clone();
        gateway.status = Some(object(status));
        facts.snapshot.gateways.insert(Arc::new(gateway));
    };
    // The platform's own Gateway is told of, too.
    let of_service = |findings: Vec<Finding>| -> Vec<Finding> {
        findings.into_iter().filter(|finding| finding.object == LLM).collect()
    };

    let found = with(|facts| {
        routed(facts);
        facts.snapshot.gateways.remove("kserve", "gw");
    });
    only(&of_service(found), "GatewayMissing", LLM, "no Gateway kserve/gw", "kserveIngressGateway");
    let found = with(|facts| {
        unheard(facts);
        gateway(facts, json!({}));
        facts.snapshot.gateway_classes.remove("", "envoy");
    });
    let finding =
        only(&of_service(found), "GatewayClassMissing", LLM, "no GatewayClass envoy", "Envoy Gateway");
    assert_eq!(finding.chain[1..], ["HTTPRoute ns/llm-kserve-route", "Gateway kserve/gw"]);
    let found = with(|facts| {
        unheard(facts);
        gateway(facts, json!({}));
        let mut class = facts.snapshot.gateway_classes.get("", "envoy").unwrap().clone();
        class.status =
            Some(object(json!({"conditions": [condition("Accepted", "False", "InvalidParameters", "no")]})));
        facts.snapshot.gateway_classes.insert(Arc::new(class));
    });
    only(&of_service(found), "GatewayClassRefused", LLM, "InvalidParameters: no", "gatewayclass envoy");
    let found = with(|facts| {
        unheard(facts);
        gateway(
            facts,
            json!({"conditions": [condition("Programmed", "Unknown", "Pending", "Waiting for controller")]}),
        );
    });
    only(
        &of_service(found),
        "GatewayControllerSilent",
        LLM,
        "`example.com/gateway`",
        "kubectl describe gateway",
    );
    let found = with(|facts| {
        unheard(facts);
        gateway(
            facts,
            json!({"conditions": [condition("Programmed", "False", "AddressNotAssigned", "no address")]}),
        );
    });
    only(
        &of_service(found),
        "GatewayNotProgrammed",
        LLM,
        "AddressNotAssigned: no address",
        "kubectl describe gateway",
    );
    let found = with(|facts| {
        unheard(facts);
        let listener = json!({
            "name": "https", "attachedRoutes": 0, "supportedKinds": [],
            "conditions": [condition("ResolvedRefs", "False", "InvalidCertificateRef", "no Secret")],
        });
        gateway(facts, json!({"listeners": [listener]}));
    });
    only(
        &of_service(found),
        "ListenerRefused",
        LLM,
        "listener https: InvalidCertificateRef",
        "spec.listeners[https]",
    );
    let found = with(|facts| {
        unheard(facts);
        let programmed = condition("Programmed", "True", "Programmed", "");
        gateway(facts, json!({"conditions": [programmed]}));
    });
    only(&of_service(found), "GatewayWithoutAddress", LLM, "no address", "LoadBalancer");
    only(
        &with(unheard),
        "RouteNotSeen",
        LLM,
        "has not said anything",
        "kubectl describe gateway -n kserve gw",
    );

    let refused = |type_: &str, reason: &str| {
        with(|facts| {
            routed(facts);
            let mut route = facts.snapshot.http_routes.get("ns", "llm-kserve-route").unwrap().clone();
            let parent = &mut route.status.as_mut().unwrap().parents[0];
            let at = parent.conditions.iter().position(|found| found.type_ == type_).unwrap();
            parent.conditions[at] = object(condition(type_, "False", reason, "no"));
            facts.snapshot.http_routes.insert(Arc::new(route));
        })
    };
    for (type_, reason, fix) in [
        ("Accepted", "NotAllowedByListeners", "allowedRoutes.namespaces has to let ns in"),
        ("Accepted", "NoMatchingParent", "sectionName"),
        ("Accepted", "NoMatchingListenerHostname", "hostnames"),
        ("ResolvedRefs", "BackendNotFound", "which back end"),
        ("ResolvedRefs", "RefNotPermitted", "ReferenceGrant"),
        ("ResolvedRefs", "InvalidKind", "inference extension"),
        ("ResolvedRefs", "Other", "kubectl describe httproute -n ns llm-kserve-route"),
    ] {
        only(&refused(type_, reason), "RouteRefused", LLM, reason, fix);
    }
    let found = with(|facts| {
        routed(facts);
        let mut route = facts.snapshot.http_routes.get("ns", "llm-kserve-route").unwrap().clone();
        route.status.as_mut().unwrap().parents[0].conditions[0].observed_generation = Some(1);
        facts.snapshot.http_routes.insert(Arc::new(route));
    });
    only(
        &found,
        "RouteStale",
        LLM,
        "has seen generation 1 of the route, which is at 3",
        "example.com/gateway",
    );
    let found = with(|facts| {
        routed(facts);
        facts.snapshot.capabilities.gateway_api = false;
    });
    only(&found, "GatewayApiMissing", LLM, "does not serve the Gateway API", "install the Gateway API");

    let referenced = |route: Option<Value>| {
        with(|facts| {
            let mut own =
                service(&[("Ready", "False", "", ""), ("HTTPRoutesReady", "False", "RefsInvalid", "")]);
            own["spec"]["router"] = json!({"route": {"http": {"refs": [{"name": "mine"}]}}});
            facts.services = vec![arc(own)];
            if let Some(route) = route {
                facts.snapshot.http_routes.insert(arc(route));
            }
        })
    };
    only(&referenced(None), "RouteMissing", LLM, "no HTTPRoute ns/mine", "spec.router.route.http.refs");
    let parentless = json!({"metadata": {"name": "mine", "namespace": "ns"}, "spec": {}});
    only(&referenced(Some(parentless)), "RouteWithoutGateway", LLM, "names no Gateway", "parentRefs");

    let pooled = |facts: &mut Facts| unready(facts, "InferencePoolReady", "WaitingForGateway", "waiting");
    let pool = |facts: &mut Facts, conditions: Value| {
        let mut pool = facts.snapshot.inference_pools.get("ns", "llm-inference-pool").unwrap().clone();
        pool.status =
            Some(object(json!({"parents": [{"parentRef": {"name": "gw"}, "conditions": conditions}]})));
        facts.snapshot.inference_pools.insert(Arc::new(pool));
    };
    let found = with(|facts| {
        pooled(facts);
        pool(facts, json!([]));
    });
    only(&found, "PoolNotSeen", LLM, "no Gateway has taken it", "inference extension");
    let found = with(|facts| {
        pooled(facts);
        pool(facts, json!([condition("Accepted", "False", "NotSupported", "no")]));
    });
    only(&found, "PoolRefused", LLM, "NotSupported: no", "kubectl describe inferencepool");
    let found = with(|facts| {
        pooled(facts);
        facts.snapshot.inference_pools.remove("ns", "llm-inference-pool");
    });
    only(&found, "PoolMissing", LLM, "no InferencePool ns/llm-inference-pool", "why was it not made");
    let found = with(|facts| {
        pooled(facts);
        facts.snapshot.capabilities.inference_pool = false;
        facts.snapshot.capabilities.inference_pool_x = false;
    });
    only(&found, "PoolApiMissing", LLM, "no InferencePools", "install the Gateway API inference extension");
    let found = with(|facts| {
        pooled(facts);
        pool(facts, json!([]));
        let mut routeless =
            service(&[("Ready", "False", "", ""), ("InferencePoolReady", "False", "WaitingForGateway", "")]);
        routeless["spec"]["router"] = json!({"scheduler": {}});
        facts.services = vec![arc(routeless)];
    });
    only(&found, "PoolWithoutRoute", LLM, "no route sends anything", "spec.router.route: {}");
}

#[test]
fn autoscalers_that_fail_lead_to_metrics_or_keda() {
    let scaling = |facts: &mut Facts| unready(facts, "ScalingReady", "FailedGetResourceMetric", "no metrics");
    let found = with(|facts| {
        scaling(facts);
        let failed =
            condition("ScalingActive", "False", "FailedGetResourceMetric", "unable to get metrics for cpu");
        facts.snapshot.horizontal_pod_autoscalers.insert(arc(json!({
            "metadata": {"name": "llm-kserve-hpa", "namespace": "ns"},
            "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "llm-kserve"}},
            "status": {"desiredReplicas": 1, "conditions": [failed]},
        })));
    });
    only(&found, "AutoscalerFails", LLM, "unable to get metrics", "metrics server");
    let found = with(|facts| unready(facts, "ScalingReady", "ScalingCRDNotFound", "no ScaledObject API"));
    only(&found, "KedaMissing", LLM, "no ScaledObject API", "install KEDA");
    let found = with(|facts| {
        scaling(facts);
        facts.snapshot.scaled_objects.insert(arc(json!({
            "metadata": {"name": "llm-kserve-keda", "namespace": "ns"},
            "spec": {"scaleTargetRef": {"name": "llm-kserve"}, "triggers": []},
        })));
    });
    only(&found, "KedaSilent", LLM, "is its operator running", "keda-operator");
}

#[test]
fn what_nobody_looks_at_is_told() {
    let found = with(|facts| {
        let mut changed = service(&READY);
        changed["metadata"]["generation"] = json!(3);
        facts.services = vec![arc(changed)];
    });
    only(&found, "NotObserved", LLM, "generation 3 (it has seen 2)", "is ns among the namespaces");
    let found = with(|facts| {
        let mut going = service(&READY);
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        facts.services = vec![arc(going)];
    });
    only(&found, "DeletionPending", LLM, "a finalizer holds it", "controller run");
    let found = with(|facts| {
        let waits = [("GroupReady", "False", "FinalizationPending", "waiting for member b")];
        let mut going = service(&waits);
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        facts.services = vec![arc(going)];
    });
    only(&found, "WaitsForMember", LLM, "member b", "kubectl get httproute -n ns");
    let found = with(|facts| {
        let mut stopped = service(&[("Ready", "False", "Stopped", "Service is stopped")]);
        stopped["metadata"]["annotations"] = json!({"serving.kserve.io/stop": "true"});
        facts.services = vec![arc(stopped)];
    });
    assert_eq!(to_text(&found), "", "who is stopped is not broken");
}

#[test]
fn what_says_ready_and_does_not_answer_leads_to_server_gateway_or_certificate() {
    let answers = |at_url, at_workload| {
        with(|facts| {
            let said = Answers { at_url: Some(at_url), at_workload };
            facts.answers = BTreeMap::from([("ns/llm".to_owned(), said)]);
        })
    };
    let found = answers(Ok(503), Some(Err("connection refused".into())));
    only(&found, "ServerFails", LLM, "the model server itself does not answer", "kubectl logs -n ns");
    let found = answers(Err("timed out".into()), Some(Ok(200)));
    only(&found, "GatewayFails", LLM, "http://gw/ns/llm does not answer: timed out", "data plane");
    let found = answers(Ok(404), None);
    only(&found, "NoAnswer", LLM, "answers 404", "kubectl port-forward -n ns svc/llm-kserve-workload-svc");
    assert_eq!(to_text(&answers(Ok(401), None)), "", "who asks for credentials is there");

    let found = with(|facts| facts.pods[0].metadata.labels = None);
    only(&found, "NoEndpoints", LLM, "no pod has the labels", "--show-labels");
    let found = with(|facts| {
        facts.pods[0].status = None;
        facts.pods[0].metadata.deletion_timestamp = Some(object(json!("2026-01-01T00:00:00Z")));
    });
    only(&found, "NoReadyPods", LLM, "none of its pods is ready", "kubectl get pods -n ns");
    let found =
        with(|facts| facts.pods[0].status = Some(object(waiting("main", "ImagePullBackOff", "gone"))));
    only(&found, "ImageNotPulled", LLM, "gone", "imagePullSecrets");
    let found = with(|facts| {
        let mut homeless = service(&READY);
        homeless["status"]["url"] = Value::Null;
        facts.services = vec![arc(homeless)];
    });
    only(&found, "NoAddress", LLM, "no address", "kubectl get gateway");
    let found = with(|facts| {
        let secret = json!({
            "metadata": {"name": "llm-kserve-self-signed-certs", "namespace": "ns"},
            "data": {"tls.crt": longboat_bundle("")},
        });
        facts.snapshot.secrets.insert(arc(secret));
    });
    only(&found, "CertificateEnded", LLM, "not valid any more", "kubectl delete secret");
    let found = with(|facts| {
        let mut degraded =
            service(&[("Ready", "True", "", ""), ("GroupDegraded", "True", "MemberDivergence", "a+b, c")]);
        degraded["spec"]["router"]["route"] = json!({"group": "g", "weight": 1});
        facts.services = vec![arc(degraded)];
    });
    assert_eq!(only(&found, "GroupDiverges", LLM, "a+b, c", "adapters").severity, Severity::Warning);
}

#[test]
fn a_local_world_has_no_installation_to_look_at() {
    let found = with(|facts| {
        facts.local = true;
        facts.controller = None;
        facts.mutating.clear();
        facts.validating.clear();
    });
    assert_eq!(to_text(&found), "");
}

/// A fault without a test may be one that is never found.
#[test]
fn every_fault_of_the_source_is_seeded_here() {
    let mut words = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for call in text.split("Cause::new(").skip(1) {
                let word = call.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
                words.push(word.unwrap_or_else(|| panic!("{}: no word", path.display())).to_owned());
            }
        }
    }
    let here = include_str!("faults.rs");
    words.retain(|word| !here.contains(&format!("\"{word}\"")));
    assert!(words.is_empty(), "without a test: {words:?}");
}
