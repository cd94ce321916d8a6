//! What `validate` says about objects that the files refer to and do not contain.

use super::{Finding, finding_lines, report, service};

#[test]
fn what_the_cluster_must_have_is_one_note_for_each_service() {
    let lines = "  router: {route: {}, gateway: {refs: [{name: gw, namespace: infra}]}}\n  template:\n    serviceAccountName: reader\n    \
                 containers:\n    - name: main\n      env:\n      - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: token, key: t}}}\n      \
                 - {name: A, valueFrom: {secretKeyRef: {name: unneeded, key: t, optional: true}}}\n      \
                 - {name: B, valueFrom: {configMapKeyRef: {name: settings, key: t}}}\n    \
                 volumes: [{name: v, projected: {sources: [{secret: {name: ca}}]}}]\n";
    let text = service(lines).replace("hf://org/model", "pvc://models/llama");
    let found = report(&text);
    let [note] = found.findings.as_slice() else { panic!("{found:#?}") };
    assert_eq!(
        note.line(),
        "f.yaml:4:1: note: spec: refers to objects that are not in these files: ConfigMap default/settings, Gateway infra/gw, \
         PersistentVolumeClaim default/models, Secret default/ca, Secret default/token, ServiceAccount default/reader"
    );
    assert!(found.is_clean());
    let core =
        |kind: &str, name: &str| format!("---\napiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}}}\n");
    let given =
        [("Secret", "token"), ("Secret", "ca"), ("ConfigMap", "settings"), ("ServiceAccount", "reader")];
    let given = given.map(|(kind, name)| core(kind, name)).concat();
    assert_eq!(
        report(&(text + &given)).findings[0].message,
        "refers to objects that are not in these files: Gateway infra/gw, PersistentVolumeClaim default/models"
    );
}

#[test]
fn a_service_of_the_picker_is_not_noted_if_planning_stops_before_it() {
    let text =
        service("  router: {route: {}, gateway: {}, scheduler: {}}\n").replace("hf://org/model", "git://x");
    let found = report(&text);
    let finding_lines: Vec<&str> = found.findings.iter().map(|one| one.message.as_str()).collect();
    assert_eq!(
        finding_lines,
        ["failed to attach model artifacts to main deployment: unsupported schema in model URI: git://x"]
    );
}

#[test]
fn the_gateways_of_a_route_in_a_service_are_noted_without_that_of_the_platform() {
    let rules = "[{matches: [{path: {type: PathPrefix, value: /}}], backendRefs: [{name: one-kserve-workload-svc, port: 8000}]}]";
    let parents = "[{name: edge, namespace: infra}, {name: kserve-ingress-gateway, namespace: kserve}]";
    let route =
        format!("  router: {{route: {{http: {{spec: {{parentRefs: {parents}, rules: {rules}}}}}}}}}\n");
    assert_eq!(
        report(&service(&route)).findings.iter().map(Finding::line).collect::<Vec<_>>(),
        ["f.yaml:4:1: note: spec: refers to objects that are not in these files: Gateway infra/edge"]
    );
    assert_eq!(finding_lines(&service("  router: {route: {}}\n")), Vec::<String>::new());
}

#[test]
fn classes_and_the_credentials_of_triggers_are_noted_and_nothing_of_a_stopped_service() {
    let lines = "  router: {route: {}, gateway: {}, scheduler: {}}\n  template: {priorityClassName: high, runtimeClassName: nvidia}\n  scaling:\n    \
                 maxReplicas: 3\n    keda:\n      triggers:\n      - {type: prometheus, metadata: METADATA, authenticationRef: {name: login}}\n      \
                 - {type: prometheus, metadata: METADATA, authenticationRef: {name: all, kind: ClusterTriggerAuthentication}}\n";
    let metadata = "{query: 'sum(a)', serverAddress: 'http://p', threshold: '1'}";
    let lines = &lines.replace("METADATA", metadata);
    let notes = |text: &str| {
        let found = report(text).findings.into_iter().filter(|finding| finding.reason == "NotInTheseFiles");
        found.map(|finding| finding.message).collect::<Vec<_>>()
    };
    assert_eq!(
        notes(&service(lines)),
        [
            "refers to objects that are not in these files: ClusterTriggerAuthentication all, PriorityClass high, RuntimeClass nvidia, \
          TriggerAuthentication default/login"
        ]
    );
    let given = [
        ("keda.sh/v1alpha1", "ClusterTriggerAuthentication", "all", "spec: {}"),
        ("keda.sh/v1alpha1", "TriggerAuthentication", "login", "spec: {}"),
        ("scheduling.k8s.io/v1", "PriorityClass", "high", "value: 1"),
        ("node.k8s.io/v1", "RuntimeClass", "nvidia", "handler: nvidia"),
    ];
    let given = given.map(|(version, kind, name, rest)| {
        format!("---\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}}}\n{rest}\n")
    });
    assert_eq!(notes(&(service(lines) + &given.concat())), [""; 0]);
    let system = service("  template: {priorityClassName: system-cluster-critical}\n");
    assert_eq!(notes(&system), [""; 0]);
    let stopped = "{name: one, annotations: {serving.kserve.io/stop: 'True'}}";
    assert_eq!(notes(&service(lines).replace("{name: one}", stopped)), [""; 0]);
}

#[test]
fn what_gateways_and_routes_need_is_noted_too() {
    let lines = |text: &str| report(text).findings.iter().map(Finding::line).collect::<Vec<_>>();
    let gateway = |rest: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: gw}}\nspec:\n  gatewayClassName: longboat\n  listeners:\n  \
             - {{name: tls, port: 443, protocol: HTTPS, tls: {{certificateRefs: [{{name: certificate}}]}}}}\n{rest}"
        )
    };
    let missing =
        |what: &str| format!("f.yaml:4:1: note: spec: refers to objects that are not in these files: {what}");
    assert_eq!(lines(&gateway("")), [missing("Secret default/certificate")]);
    let parameters = "  infrastructure: {parametersRef: {group: '', kind: ConfigMap, name: sizes}}\n";
    let both = missing("ConfigMap default/sizes, Secret default/certificate");
    assert_eq!(lines(&gateway(parameters)), [both]);
    let sizes = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: sizes}\ndata: {replicas: many}\n";
    let pair = longboat_tls::self_signed(&longboat_tls::LeafRequest {
        common_name: "a.example".to_owned(),
        organization: String::new(),
        dns_names: vec!["a.example".to_owned()],
        ips: Vec::new(),
        days: 1,
        client_auth: false,
    });
    let longboat_tls::KeyPair { certificate_pem, key_pem } = pair.unwrap();
    let secret_of = |type_: &str, certificate: &str, key: &str| {
        format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: certificate}}\ntype: {type_}\nstringData: {{tls.crt: {certificate:?}, tls.key: \
             {key:?}}}\n"
        )
    };
    let secret = &*secret_of("kubernetes.io/tls", &certificate_pem, &key_pem);
    assert_eq!(lines(&(gateway("") + secret)), [""; 0]);
    let unusable = "f.yaml:7:45: warning: spec.listeners[0].tls: no client can connect to this listener: ";
    assert_eq!(
        lines(&(gateway("") + &secret_of("Opaque", &certificate_pem, &key_pem))),
        [format!("{unusable}there is no Secret default/certificate of type kubernetes.io/tls")]
    );
    let found = lines(&(gateway("") + &secret_of("kubernetes.io/tls", "x", "y")));
    assert!(
        found.len() == 1 && found[0].starts_with(&format!("{unusable}Secret default/certificate: ")),
        "{found:#?}"
    );
    let without = gateway("").replace(", tls: {certificateRefs: [{name: certificate}]}", "");
    assert_eq!(
        lines(&without),
        [format!("{}the listener has no tls.certificateRefs", unusable.replace("7:45", "7:5"))]
    );
    let by_options = gateway("").replace("certificateRefs: [{name: certificate}]", "options: {a.b/c: d}");
    assert_eq!(lines(&by_options), [""; 0]);
    let served = "f.yaml:8:20: warning: spec.infrastructure.parametersRef: on a cluster, nothing serves this Gateway: ";
    assert_eq!(
        lines(&(gateway(parameters) + sizes + secret)),
        [format!("{served}ConfigMap default/sizes: replicas is `many`: expected a number from 0 to 100")]
    );
    let of_another_kind =
        gateway(parameters).replace("group: '', kind: ConfigMap", "group: a.b, kind: Sizes");
    assert_eq!(
        lines(&(of_another_kind.clone() + secret)),
        [format!("{served}parameters of kind Sizes are not supported: use a ConfigMap")]
    );
    // Which parameters other implementations have is not known here.
    assert_eq!(lines(&(of_another_kind.replace("Name: longboat", "Name: istio") + secret)), [""; 0]);

    let mirror = |name: &str| {
        format!("{{type: RequestMirror, requestMirror: {{backendRef: {{name: {name}, port: 80}}}}}}")
    };
    let route = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: r}}\nspec:\n  rules:\n  - filters: [{}]\n    backendRefs: \
         [{{name: one-kserve-workload-svc, port: 8000, filters: [{}]}}]\n",
        mirror("shadow"),
        mirror("second")
    );
    let others = "Service default/second, Service default/shadow";
    let all = format!("Service default/one-kserve-workload-svc, {others}");
    assert_eq!(lines(&route), [missing(&all)]);
    let with_service = format!("{route}---\n{}", service(""));
    assert_eq!(lines(&with_service), [missing(others)]);
    let attached = |parents: &str| {
        let rule = "{backendRefs: [{name: one-kserve-workload-svc, port: 8000}]}";
        let spec = format!("{{parentRefs: [{parents}], rules: [{rule}]}}");
        let route = format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: r}}\nspec: {spec}\n"
        );
        lines(&format!("{route}---\n{}", service("")))
    };
    assert_eq!(
        attached("{name: gw}, {name: edge, namespace: infra}"),
        [missing("Gateway default/gw, Gateway infra/edge")]
    );
    assert_eq!(attached("{name: kserve-ingress-gateway, namespace: kserve}"), [""; 0]);
}

#[test]
fn what_pickers_read_is_checked_as_their_definitions_say() {
    let objective = |group: &str, spec: &str| {
        format!(
            "---\napiVersion: {group}/v1alpha2\nkind: InferenceObjective\nmetadata: {{name: batch}}\nspec: {spec}\n"
        )
    };
    for group in ["inference.networking.x-k8s.io", "llm-d.ai"] {
        assert_eq!(
            finding_lines(&objective(group, "{prioritty: 1, priority: high}")),
            [
                "5:1 error spec.poolRef FieldValueRequired",
                "5:8 error spec.prioritty UnknownField (did you mean `priority`?)",
                "5:22 error spec.priority FieldValueTypeInvalid",
            ]
        );
        let named = |pool: &str| {
            service("  router: {route: {}, scheduler: {}}\n")
                + &objective(group, &format!("{{poolRef: {{name: {pool}}}}}"))
        };
        // The controller makes this pool.
        assert_eq!(finding_lines(&named("one-inference-pool")), [""; 0]);
        assert_eq!(
            finding_lines(&named("one-inference-pol")),
            ["12:18 note spec.poolRef.name NotInTheseFiles (did you mean `one-inference-pool`?)"]
        );
    }
}

#[test]
fn an_autoscaler_of_a_workload_that_no_service_has_is_told_its_name() {
    let multi_node = "  parallelism: {data: 2, dataLocal: 1}\n  worker: {containers: [{name: main}]}\n";
    let with = |lines: &str, target: &str| {
        let autoscaler = "---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\nspec:\n  maxReplicas: 3\n  scaleTargetRef: ";
        let found = report(&format!("{}{autoscaler}{target}\n", service(lines)));
        let warnings = found.findings.into_iter().filter(|finding| finding.reason == "ScaleTargetNotFound");
        warnings.map(|one| format!("{} ({})", one.line(), one.hint.unwrap_or_default())).collect::<Vec<_>>()
    };
    let deployment = |name: &str| format!("{{apiVersion: apps/v1, kind: Deployment, name: {name}}}");
    let meant = "(did you mean `{apiVersion: apps/v1, kind: Deployment, name: one-kserve}`?)";
    let of_none =
        "which no service in these files creates: unless the cluster has it, the autoscaler scales nothing";
    for name in ["one", "one-ksrve", "one-kserve-workload", "one-predictor"] {
        assert_eq!(
            with("", &deployment(name)),
            [format!(
                "f.yaml:13:3: warning: spec.scaleTargetRef: names Deployment default/{name}, {of_none} {meant}"
            )]
        );
    }
    let service = "{apiVersion: serving.kserve.io/v1alpha2, kind: LLMInferenceService, name: one}";
    assert_eq!(
        with("", service),
        [format!(
            "f.yaml:13:3: warning: spec.scaleTargetRef: names LLMInferenceService default/one, which cannot be scaled: the autoscaler scales nothing {meant}"
        )]
    );
    let of_group = with(multi_node, &deployment("one-kserve"));
    let [of_group] = of_group.as_slice() else { panic!("{of_group:?}") };
    assert!(
        of_group.ends_with(
            "{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, name: one-kserve-mn}`?)"
        ),
        "{of_group}"
    );
    // Names of workloads of others.
    for name in ["one-kserve", "one-ui", "web"] {
        assert_eq!(with("", &deployment(name)), [""; 0]);
    }
}

#[test]
fn an_autoscaler_that_never_starts_a_replica_again_is_warned_about() {
    let with = |class: &str, autoscaler: &str| {
        let gateway = format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: kserve-ingress-gateway, namespace: \
             kserve}}\nspec:\n  gatewayClassName: {class}\n  listeners: [{{name: web, port: 80, protocol: HTTP, allowedRoutes: \
             {{namespaces: {{from: All}}}}}}]\n"
        );
        let router = "  router: {gateway: {}, route: {}, scheduler: {}}\n";
        let found = report(&format!("{}{gateway}---\n{autoscaler}", service(router))).findings.into_iter();
        found.filter(|finding| finding.reason == "NeverWakes").map(|one| one.path).collect::<Vec<_>>()
    };
    let scaled = |query: &str| {
        format!(
            "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {{name: s}}\nspec:\n  minReplicaCount: 0\n  scaleTargetRef: \
             {{name: one-kserve}}\n  triggers: [{{type: prometheus, metadata: {{serverAddress: 'http://p', threshold: '1', query: \
             '{query}'}}}}]\n"
        )
    };
    let hpa = |least: u8, metric: &str| {
        format!(
            "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {{name: h}}\nspec:\n  minReplicas: {least}\n  \
             maxReplicas: 3\n  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: one-kserve}}\n  metrics: [{{type: \
             External, external: {{metric: {{name: '{metric}'}}, target: {{type: AverageValue, averageValue: 1}}}}}}]\n"
        )
    };
    let waiting = "sum(vllm:num_requests_waiting)";
    assert_eq!(with("longboat", &scaled(waiting)), ["spec.triggers"]);
    assert_eq!(with("istio", &scaled(waiting)), [""; 0]);
    assert_eq!(with("longboat", &scaled("sum(llm_d_epp_flow_control_queue_size)")), [""; 0]);
    assert_eq!(with("longboat", &hpa(0, "vllm:num_requests_waiting")), ["spec.metrics"]);
    assert_eq!(with("longboat", &hpa(1, "vllm:num_requests_waiting")), [""; 0]);
    assert_eq!(with("longboat", &hpa(0, "requests-per-second")), [""; 0]);
}

#[test]
fn an_autoscaler_of_a_workload_that_the_service_scales_is_warned_about() {
    let with = |lines: &str, kind: &str, target: &str| {
        let autoscaler = match kind {
            "ScaledObject" => {
                format!(
                    "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {{name: h}}\nspec:\n  triggers: [{{type: cron, metadata: \
                     {{}}}}]\n  scaleTargetRef: {target}\n"
                )
            }
            _ => format!(
                "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {{name: h}}\nspec:\n  maxReplicas: 3\n  \
                 scaleTargetRef: {target}\n"
            ),
        };
        let found = report(&format!("{}---\n{autoscaler}", service(lines))).findings.into_iter();
        let found = found.filter(|finding| finding.reason == "ReplicasContested");
        found
            .map(|one| format!("{}: {} ({})", one.path, one.message, one.hint.unwrap_or_default()))
            .collect::<Vec<_>>()
    };
    let contested = |workload: &str, field: &str, hint: &str| {
        [format!(
            "spec.scaleTargetRef: names {workload}, and {field} of LLMInferenceService one sets its replicas: the controller and the \
             autoscaler undo each other's changes for ever ({hint})"
        )]
    };
    let hpa = "HorizontalPodAutoscaler";
    let deployment = |name: &str| format!("{{apiVersion: apps/v1, kind: Deployment, name: {name}}}");
    let (fixed, own) = ("  replicas: 1\n", deployment("one-kserve"));
    let main = contested(
        "Deployment default/one-kserve",
        "spec.replicas",
        "remove spec.replicas, or use spec.scaling in place of both",
    );
    assert_eq!(with(fixed, hpa, &own), main);
    assert_eq!(with(fixed, "ScaledObject", "{name: one-kserve}"), main);
    assert_eq!(with("", hpa, &own), [""; 0]);
    let prefill = "  prefill: {replicas: 2, template: {containers: [{name: main}]}}\n";
    assert_eq!(with(prefill, hpa, &own), [""; 0]);
    assert_eq!(
        with(prefill, hpa, &deployment("one-kserve-prefill")),
        contested(
            "Deployment default/one-kserve-prefill",
            "spec.prefill.replicas",
            "remove spec.prefill.replicas, or use spec.prefill.scaling in place of both"
        )
    );
    let group =
        "  replicas: 2\n  parallelism: {data: 2, dataLocal: 1}\n  worker: {containers: [{name: main}]}\n";
    assert_eq!(
        with(
            group,
            hpa,
            "{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, name: one-kserve-mn}"
        ),
        contested(
            "LeaderWorkerSet default/one-kserve-mn",
            "spec.replicas",
            "remove spec.replicas, or use spec.scaling in place of both"
        )
    );
    let picker = "  router: {route: {}, gateway: {}, scheduler: {replicas: 2}}\n";
    assert_eq!(
        with(picker, hpa, &deployment("one-kserve-router-scheduler")),
        contested(
            "Deployment default/one-kserve-router-scheduler",
            "spec.router.scheduler.replicas",
            "remove spec.router.scheduler.replicas"
        )
    );
    let scaled = "  scaling: {maxReplicas: 3, keda: {triggers: [{type: cron, metadata: {}}]}}\n";
    assert_eq!(
        with(scaled, hpa, &own),
        [
            "spec.scaleTargetRef: names Deployment default/one-kserve, which spec.scaling of LLMInferenceService one scales already: the two \
          autoscalers undo each other's changes for ever (remove this autoscaler, or spec.scaling)"
        ]
    );
}

#[test]
fn a_claim_of_one_node_is_no_place_for_several_pods() {
    let with = |lines: &str, modes: &str| {
        let claim = format!(
            "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: models}}\nspec: {{accessModes: [{modes}], resources: {{requests: {{storage: 1Gi}}}}}}\n"
        );
        let text = service(lines).replace("hf://org/model", "pvc://models/llama") + &claim;
        report(&text).findings.iter().map(Finding::line).collect::<Vec<_>>()
    };
    let finding_lines = |mode: &str, who: &str, pods: u32| {
        let rest = if mode == "ReadWriteOnce" { "those on other nodes" } else { "the others" };
        [format!(
            "f.yaml:6:5: warning: spec.model.uri: mounts PersistentVolumeClaim models, which is {mode}, so {who}, and the service has up \
             to {pods} pods with it: {rest} do not start"
        )]
    };
    let node = "only pods on one node mount it";
    assert_eq!(with("  replicas: 3\n", "ReadWriteOnce"), finding_lines("ReadWriteOnce", node, 3));
    assert_eq!(
        with("  replicas: 3\n", "ReadWriteOncePod"),
        finding_lines("ReadWriteOncePod", "one pod only mounts it", 3)
    );
    let group = "  parallelism: {data: 4, dataLocal: 2}\n  worker: {containers: [{name: main}]}\n";
    assert_eq!(with(group, "ReadWriteOnce"), finding_lines("ReadWriteOnce", node, 2));
    assert_eq!(with("", "ReadWriteOnce"), [""; 0]);
    assert_eq!(with("  replicas: 3\n", "ReadWriteMany"), [""; 0]);
    assert_eq!(with("  replicas: 3\n", "ReadWriteOnce, ReadOnlyMany"), [""; 0]);
}
