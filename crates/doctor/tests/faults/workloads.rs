//! Services that cannot be composed, pods that do not start.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Event;
use longboat_doctor::{Finding, Severity};
use longboat_key::{Name, Namespace};
use serde_json::{Value, json};

use crate::world::{LLM, arc, condition, object, only, pod, service, unready, waiting, with};

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
}

#[test]
fn a_preset_that_no_release_has_is_not_to_be_installed() {
    let missing = |name: &str| {
        with(|facts| {
            let message =
                format!("LLMInferenceServiceConfig \"kserve-{name}\" not found in namespaces [ns kserve]");
            unready(facts, "PresetsCombined", "ConfigNotFound", &message);
            facts.configs.clear();
        })
    };
    let of_service = |found: Vec<Finding>| -> String {
        found.into_iter().find(|one| one.fault == "ConfigNotFound").unwrap().fix
    };
    let fix = of_service(missing("config-llm-template"));
    assert!(fix.starts_with("run `longboat install "), "{fix}");
    let fix = of_service(missing("config-llm-worker-pipeline-parallel"));
    assert!(fix.starts_with("no preset of this build has that name: apply"), "{fix}");
}

#[test]
fn a_container_that_its_liveness_probe_ends_leads_to_the_probe() {
    let at = |minute: u8| format!("2026-01-01T00:{minute:02}:00Z");
    let found = |killed: u8, container: &str| {
        with(|facts| {
            unready(facts, "MainWorkloadReady", "MinimumReplicasUnavailable", "");
            let mut status = waiting("main", "CrashLoopBackOff", "back-off");
            let ended = json!({"terminated": {"exitCode": 0, "startedAt": at(5), "finishedAt": at(7)}});
            status["containerStatuses"][0]["lastState"] = ended;
            facts.pods = vec![object(pod("llm-kserve-1", &json!({"app": "llm"}), &status))];
            let event = |reason: &str, message: &str| {
                object(json!({
                    "metadata": {"name": "e", "namespace": "ns"}, "reason": reason, "message": message,
                    "lastTimestamp": at(killed),
                    "involvedObject": {"kind": "Pod", "name": "llm-kserve-1", "namespace": "ns"},
                }))
            };
            let said = "Liveness probe failed: Get \"https://h/health\": http: server gave HTTP response to HTTPS client";
            let killing = format!("Container {container} failed liveness probe, will be restarted");
            facts.events = vec![event("Unhealthy", said), event("Killing", &killing)];
        })
    };
    only(
        &found(6, "main"),
        "ProbeFails",
        LLM,
        "the kubelet stopped it: Liveness probe failed",
        "`scheme: HTTP`",
    );
    only(&found(4, "main"), "ContainerCrashes", LLM, "exit code 0", "kubectl logs");
    only(&found(6, "other"), "ContainerCrashes", LLM, "exit code 0", "kubectl logs");
}

#[test]
fn a_runtime_that_is_missing_or_unsuitable_leads_to_the_runtime() {
    let found =
        with(|facts| unready(facts, "PresetsCombined", "RuntimeNotFound", "runtime \"fast\" not found"));
    only(&found, "RuntimeNotFound", LLM, "fast", "correct spec.runtime");
    let found =
        with(|facts| unready(facts, "PresetsCombined", "RuntimeUnsupported", "spec.prefill is not possible"));
    only(&found, "RuntimeUnsupported", LLM, "spec.prefill", "remove spec.runtime");
}

/// Returns the findings for a service whose pod has this status.
fn with_pod(status: &Value) -> Vec<Finding> {
    with(|facts| {
        unready(facts, "MainWorkloadReady", "MinimumReplicasUnavailable", "");
        facts.pods = vec![object(pod("llm-kserve-1", &json!({"app": "llm"}), status))];
    })
}

#[test]
fn a_secret_that_is_missing_is_named_with_its_entries_and_the_command_that_creates_it() {
    let storage = |uri: &str, annotation: &str, message: &str| {
        with(|facts| {
            unready(facts, "MainWorkloadReady", "ReconcileSingleNodeWorkloadError", message);
            let platform = Arc::make_mut(&mut facts.snapshot.platform);
            platform.credentials.storage_secret_name_annotation =
                "serving.kserve.io/storageSecretName".to_owned();
            let service = Arc::make_mut(&mut facts.services[0]);
            service.spec.model.uri = serde_json::from_value(json!(uri)).unwrap();
            service.metadata.annotations =
                Some([("serving.kserve.io/storageSecretName".to_owned(), annotation.to_owned())].into());
        })
    };
    let missing = "cannot plan the workload: secrets \"keys\" not found";
    let create = "run `kubectl create secret generic -n ns keys ";
    for (uri, command) in [
        ("hf://a/b", "--from-literal=HF_TOKEN=\"$HF_TOKEN\"`"),
        ("s3://bucket/m", "--from-literal=awsSecretAccessKey=\"$AWS_SECRET_ACCESS_KEY\"`"),
        ("gs://bucket/m", "--from-file=gcloud-application-credentials.json=KEY.json`"),
        (
            "https://models.example/m.gguf",
            "--from-literal=https-host=models.example --from-literal=headers='{",
        ),
    ] {
        let found = storage(uri, "keys", missing);
        let finding =
            only(&found, "SecretMissing", LLM, "there is no Secret ns/keys for the download", create);
        assert!(finding.fix.contains(command), "{finding:#?}");
        assert!(finding.fix.contains("the annotation serving.kserve.io/storageSecretName"), "{finding:#?}");
        assert!(finding.is_permanent());
    }
    let found = storage("hf://a/b", "other", missing);
    only(
        &found,
        "SecretMissing",
        LLM,
        "ns/keys",
        "remove the name from `secrets` of the pods' ServiceAccount",
    );
    let found = storage("pvc://claim/m", "keys", missing);
    only(&found, "SecretMissing", LLM, "ns/keys", "a model at pvc:// needs no Secret");

    let in_pod = |message: &str| {
        with(|facts| {
            unready(facts, "MainWorkloadReady", "MinimumReplicasUnavailable", "");
            let status = waiting("main", "CreateContainerConfigError", message);
            let mut pod = pod("llm-kserve-1", &json!({"app": "llm"}), &status);
            let entry = |key: &str| json!({"secretKeyRef": {"name": "token", "key": key}});
            pod["spec"]["containers"] = json!([{"name": "main", "image": "registry.example:5000/vllm:1", "env": [
                {"name": "A", "valueFrom": entry("a")}, {"name": "B", "valueFrom": entry("b.txt")},
                {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "token", "key": "c"}}},
            ]}]);
            facts.pods = vec![object(pod)];
        })
    };
    for (message, fix) in [
        (
            "secret \"token\" not found",
            "secret generic -n ns token --from-literal=a=VALUE --from-literal=b.txt=VALUE`",
        ),
        (
            "configmap \"token\" not found",
            "run `kubectl create configmap -n ns token --from-literal=c=VALUE`",
        ),
        (
            "couldn't find key a in Secret ns/token",
            "run `kubectl patch secret -n ns token -p '{\"stringData\": {\"a\": \"VALUE\"}}'`",
        ),
        ("couldn't find key c in ConfigMap ns/token", "patch configmap -n ns token -p '{\"data\": {\"c\":"),
    ] {
        only(&in_pod(message), "ContainerNotCreated", LLM, message, fix);
    }
}

#[test]
fn pods_that_do_not_start_lead_to_image_configuration_memory_or_model() {
    let found = with_pod(&waiting("main", "ImagePullBackOff", "not found"));
    let finding = only(
        &found,
        "ImageNotPulled",
        LLM,
        "example.com/vllm:1 cannot be pulled",
        "--docker-server=docker.io",
    );
    let chain = [
        "MainWorkloadReady=False MinimumReplicasUnavailable",
        "Deployment ns/llm-kserve",
        "Pod ns/llm-kserve-1",
    ];
    assert_eq!(finding.chain, chain);

    let found = with_pod(&waiting("main", "CreateContainerConfigError", "secret \"token\" not found"));
    let fix = "run `kubectl create secret generic -n ns token --from-file=FILE`, or correct the name";
    only(&found, "ContainerNotCreated", LLM, "secret \"token\" not found", fix);
    let found = with_pod(&waiting("main", "CreateContainerConfigError", "no such host"));
    only(&found, "ContainerNotCreated", LLM, "no such host", "what the message names in namespace ns");
    let found = with_pod(&waiting("main", "NoLocalRole", "nothing here runs this image"));
    let finding = only(
        &found,
        "NoLocalProgram",
        LLM,
        "nothing here runs this image",
        "or run the service on a cluster",
    );
    assert!(finding.is_permanent());
    let found = with_pod(&waiting("main", "RegistryUnavailable", "try later"));
    let finding =
        only(&found, "ContainerWaits", LLM, "RegistryUnavailable", "kubectl describe pod -n ns llm-kserve-1");
    assert!(!finding.is_permanent());

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
    let found = with(|facts| {
        unready(facts, "MainWorkloadReady", "MinimumReplicasUnavailable", "");
        facts.local = true;
        let mut status = waiting("storage-initializer", "CrashLoopBackOff", "back-off");
        status["containerStatuses"][0]["lastState"] =
            json!({"terminated": {"exitCode": 1, "message": "no network"}});
        facts.pods = vec![object(pod("llm-kserve-1", &json!({"app": "llm"}), &status))];
    });
    only(&found, "ModelNotFetched", LLM, "no network", "spec.model.uri: file:///FOLDER");

    let running = json!({"containerStatuses": [{
        "name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": {"running": {}},
    }]});
    only(&with_pod(&running), "PodStarting", LLM, "may still be loading the model", "kubectl logs");
    only(&with_pod(&json!({})), "PodNotScheduled", LLM, "has not chosen a node", "kubectl get nodes");
    let event = |reason: &str, message: &str| {
        object(json!({
            "metadata": {"name": "e", "namespace": "ns"}, "reason": reason, "message": message,
            "involvedObject": {"kind": "Pod", "name": "llm-kserve-1", "namespace": "ns"},
        }))
    };
    let found = with(|facts| {
        unready(facts, "MainWorkloadReady", "Progressing", "");
        facts.pods = vec![object(pod("llm-kserve-1", &json!({"app": "llm"}), &running))];
        let mut elsewhere: Event = event("Unhealthy", "Readiness probe failed: 500");
        elsewhere.involved_object.namespace = Some("other".to_owned());
        facts.events = vec![event("Unhealthy", "Readiness probe failed: 503"), elsewhere];
    });
    only(&found, "ProbeFails", LLM, "Readiness probe failed: 503", "kubectl logs");
    let found = with(|facts| {
        unready(facts, "MainWorkloadReady", "Progressing", "");
        facts.pods = vec![object(pod("llm-kserve-1", &json!({"app": "llm"}), &running))];
        facts.events = vec![event("Unhealthy", "Get \"http://h/health\": context deadline exceeded")];
    });
    only(&found, "ProbeFails", LLM, "deadline exceeded", "kubectl delete pod -n ns llm-kserve-1");
    // The readiness probe of a container that has started has not failed yet.
    let found = with(|facts| {
        unready(facts, "MainWorkloadReady", "Progressing", "");
        let mut started = running.clone();
        started["containerStatuses"][0]["started"] = json!(true);
        facts.pods = vec![object(pod("llm-kserve-1", &json!({"app": "llm"}), &started))];
        facts.events = vec![event("Unhealthy", "Startup probe failed: connection refused")];
    });
    only(&found, "PodStarting", LLM, "is not ready yet", "kubectl logs");
    let found = with(|facts| {
        unready(facts, "MainWorkloadReady", "Progressing", "");
        let creating = waiting("main", "ContainerCreating", "");
        facts.pods = vec![object(pod("llm-kserve-1", &json!({"app": "llm"}), &creating))];
        facts.events = vec![event("FailedMount", "secret \"certs\" not found")];
    });
    let fix = "kubectl create secret generic -n ns certs --from-file=FILE";
    only(&found, "VolumeNotMounted", LLM, "secret \"certs\" not found", fix);
    let found = with(|facts| {
        unready(facts, "MainWorkloadReady", "Progressing", "");
        facts.pods = vec![object(pod(
            "llm-kserve-1",
            &json!({"app": "llm"}),
            &waiting("main", "ContainerCreating", ""),
        ))];
        facts.events = vec![event("FailedMount", "cannot write /v: No space left on device (os error 28)")];
    });
    only(&found, "VolumeNotMounted", LLM, "No space left", "free space on the disk");
}

#[test]
fn pods_without_a_node_lead_to_devices_taints_labels_or_volumes() {
    let unscheduled =
        |message: &str| json!({"conditions": [condition("PodScheduled", "False", "Unschedulable", message)]});
    let found = with_pod(&unscheduled("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."));
    only(&found, "PodUnschedulable", LLM, "Insufficient nvidia.com/gpu", "device plugin");
    let found = with(|facts| {
        unready(facts, "MainWorkloadReady", "Progressing", "");
        let message = "Scheduling is blocked due to non-empty scheduling gates";
        let status = json!({"conditions": [condition("PodScheduled", "False", "SchedulingGated", message)]});
        let mut gated = pod("llm-kserve-1", &json!({"app": "llm"}), &status);
        gated["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]);
        facts.pods = vec![object(gated)];
    });
    only(&found, "SchedulingGated", LLM, "scheduling gates (example.com/quota)", "remove schedulingGates");
    let found = with_pod(&unscheduled("0/3 nodes are available: 3 Insufficient memory."));
    only(&found, "PodUnschedulable", LLM, "Insufficient memory", "free memory on a node");
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
        "kubectl create serviceaccount -n ns x",
    );
    only(&refused("denied by policy"), "PodsRefused", LLM, "denied by policy", "kubectl describe deployment");

    let found = with(|facts| {
        unready(facts, "MainWorkloadReady", "Progressing", "");
        facts.pods.clear();
        let mut deployment =
            facts.snapshot.deployments.get(Namespace("ns"), Name("llm-kserve")).unwrap().clone();
        deployment.spec.as_mut().unwrap().replicas = Some(0);
        facts.snapshot.deployments.insert(Arc::new(deployment));
    });
    only(&found, "ScaledToZero", LLM, "the workload has zero replicas", "spec.replicas");
    let found = with(|facts| {
        unready(facts, "MainWorkloadReady", "Progressing", "");
        facts.snapshot.deployments.remove(Namespace("ns"), Name("llm-kserve"));
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
    only(&found, "RollingOut", LLM, "its pods are starting", "kubectl describe deployment");
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
    only(&found, "GroupControllerSilent", LLM, "its controller may not run", "lws-system");
}

#[test]
fn a_picker_that_refuses_its_configuration_leads_to_the_field() {
    let with_image = |image: &str, plugin: &str, local: bool| {
        let config = format!(
            "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{{type: {plugin}}}]\n"
        );
        with(|facts| {
            unready(facts, "SchedulerWorkloadReady", "MinimumReplicasUnavailable", "");
            facts.local = local;
            facts.snapshot.deployments.insert(arc(json!({
                "metadata": {"name": "llm-kserve-router-scheduler", "namespace": "ns"},
                "spec": {"selector": {"matchLabels": {"app": "picker"}}, "template": {"spec": {"containers": [
                    {"name": "main", "image": image, "args": ["--config-text", config]},
                ]}}},
            })));
        })
    };
    let ours = longboat_compose::platform::IMAGE;
    let cause = "the picker will not start: unknown plugin type \"queue-scorerr\"";
    let fix = "spec.router.scheduler.config";
    only(&with_image(ours, "queue-scorerr", false), "PickerConfigRefused", LLM, cause, fix);
    only(&with_image("other/picker:1", "queue-scorerr", true), "PickerConfigRefused", LLM, cause, fix);
    let other = with_image("other/picker:1", "queue-scorerr", false);
    assert!(other.iter().all(|finding| finding.fault != "PickerConfigRefused"), "{other:?}");
    let right = with_image(ours, "queue-scorer", false);
    assert!(right.iter().all(|finding| finding.fault != "PickerConfigRefused"), "{right:?}");
}

#[test]
fn a_pod_that_fails_is_told_although_older_ones_serve() {
    let beside = |status: Value| {
        with(|facts| facts.pods.push(object(pod("llm-kserve-2", &json!({"app": "llm"}), &status))))
    };
    let found = beside(waiting("main", "CrashLoopBackOff", "back-off"));
    let finding = only(&found, "ContainerCrashes", LLM, "container main", "kubectl logs");
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(finding.chain, ["Deployment ns/llm-kserve", "Pod ns/llm-kserve-2"]);
    assert_eq!(beside(waiting("main", "ContainerCreating", "")), []);
}
