//! Services that the controller has not reconciled, and services that report Ready and do not serve.

use std::collections::BTreeMap;

use longboat_doctor::{Answers, Finding, Severity, to_text};
use serde_json::{Value, json};

use crate::world::{LLM, READY, arc, bytes, object, only, service, waiting, with};

#[test]
fn what_nobody_looks_at_is_told() {
    let found = with(|facts| {
        let mut changed = service(&READY);
        changed["metadata"]["generation"] = json!(3);
        facts.services = vec![arc(changed)];
    });
    only(
        &found,
        "NotObserved",
        LLM,
        "has not processed generation 3 of the service, only 2",
        "kubectl logs -n kserve",
    );
    let found = with(|facts| {
        let mut fresh = service(&[]);
        fresh["status"] = Value::Null;
        facts.services = vec![arc(fresh)];
        let pod = facts.controller.as_mut().unwrap().spec.as_mut().unwrap().template.spec.insert(object(json!({
            "containers": [{"name": "manager", "args": ["--leader-elect", "--namespace=a", "--namespace", "b"]}],
        })));
        assert_eq!(pod.containers.len(), 1);
    });
    only(
        &found,
        "NotWatched",
        LLM,
        "does not watch namespace ns, only a, b",
        "--set 'watchNamespaces=[a,b,ns]'`, with the other values",
    );
    for (finalizer, fix) in [
        ("serving.kserve.io/llmisvc-finalizer", "check that the controller runs"),
        ("example.com/hold", "find out who set example.com/hold"),
        ("foregroundDeletion", "run `kubectl get deployments,services,pods -n ns -l"),
    ] {
        let found = with(|facts| {
            let mut going = service(&READY);
            going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            going["metadata"]["finalizers"] = json!([finalizer]);
            facts.services = vec![arc(going)];
        });
        let cause = format!("a finalizer blocks the deletion: {finalizer}");
        only(&found, "DeletionPending", LLM, &cause, fix);
    }
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
    let found = answers(Ok(404), Some(Ok(200)));
    only(&found, "RouteMisses", LLM, "no rule leads there", "kubectl get httproute -n ns llm-kserve-route");
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
            "data": {"tls.crt": bytes("")},
        });
        facts.snapshot.secrets.insert(arc(secret));
    });
    only(&found, "CertificateEnded", LLM, "has expired", "kubectl delete secret");
    let found = with(|facts| {
        let mut degraded =
            service(&[("Ready", "True", "", ""), ("GroupDegraded", "True", "MemberDivergence", "a+b, c")]);
        degraded["spec"]["router"]["route"] = json!({"group": "g", "weight": 1});
        facts.services = vec![arc(degraded)];
    });
    assert_eq!(only(&found, "GroupDiverges", LLM, "a+b, c", "adapters").severity, Severity::Warning);
    let member = |name: &str, weight: i32| json!({"name": name, "weight": weight});
    let with_weights = |first: i32, second: i32| {
        with(|facts| {
            let mut service = service(&READY);
            let members = [member("a", first), member("llm", second)];
            service["status"]["router"] = json!({"group": {"name": "g", "members": members}});
            facts.services = vec![arc(service)];
        })
    };
    assert!(with_weights(0, 1).is_empty());
    only(&with_weights(0, 0), "GroupWithoutTraffic", LLM, "group g have weight 0", "weight of a member");
}

#[test]
fn a_picker_without_pods_is_broken_unless_the_shared_picker_picks_in_its_place() {
    let without_pods = |label: &str| {
        with(|facts| {
            let mut scheduled = service(&READY);
            scheduled["status"]["workloads"]["scheduler"] =
                json!({"kind": "Deployment", "name": "llm-kserve-router-scheduler"});
            facts.services = vec![arc(scheduled)];
            facts.snapshot.services.insert(arc(json!({
                "metadata": {"name": "llm-epp-service", "namespace": "ns"}, "spec": {"selector": {"picks": "llm"}},
            })));
            facts.snapshot.deployments.insert(arc(json!({
                "metadata": {
                    "name": "llm-kserve-router-scheduler", "namespace": "ns", "labels": {"longboat.dev/picker": label},
                },
                "spec": {"replicas": 0, "selector": {"matchLabels": {"picks": "llm"}}, "template": {}},
            })));
        })
    };
    assert_eq!(without_pods("shared"), []);
    let found = only(&without_pods("own"), "NoEndpoints", LLM, "no pod has the labels", "--show-labels");
    assert_eq!(found.chain, ["Service ns/llm-epp-service"]);
}

#[test]
fn a_picker_that_is_shared_and_refuses_or_has_an_old_configuration_is_told_with_its_words() {
    let picks = |reason: &str, message: &str| {
        with(|facts| {
            let conditions = [READY[0], ("SchedulerWorkloadReady", "True", reason, message)];
            facts.services = vec![arc(service(&conditions))];
        })
    };
    let limit = "it takes at most 8192 open requests (flag --max-pool-requests of the shared picker)";
    let expected = Finding {
        severity: Severity::Warning,
        fault: "SharedPickerLimited",
        object: LLM.to_owned(),
        chain: vec!["SchedulerWorkloadReady=True SharedPickerLimited".to_owned()],
        cause: limit.to_owned(),
        fix: "raise the flag that the message names, or run `kubectl annotate llminferenceservice -n ns llm \
              longboat.dev/picker=own`"
            .to_owned(),
    };
    assert_eq!(picks("SharedPickerLimited", limit), [expected]);
    let found = picks("SharedPickerFailed", "it goes on with its former configuration: no such plugin");
    only(&found, "SharedPickerFailed", LLM, "no such plugin", "spec.router.scheduler");
    assert_eq!(picks("PickerNeedsPod", "it needs a file"), []);
    assert_eq!(picks("", ""), []);
    // It is told beside the cause of a service that is not ready.
    let found = with(|facts| {
        let down = ("Ready", "False", "Progressing", "pods start");
        let limited = ("SchedulerWorkloadReady", "True", "SharedPickerLimited", limit);
        facts.services = vec![arc(service(&[down, limited]))];
    });
    let faults: Vec<_> = found.iter().map(|finding| finding.fault).collect();
    assert_eq!(faults, ["NotReady", "SharedPickerLimited"]);
}
