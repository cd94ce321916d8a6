//! Objects: their kinds, names and data.

use longboat_manifest::parse;

use super::{finding_lines, finding_messages, report, service};
use crate::{Settings, finding::INFERENCE_SERVICE, render, scene::Scene};

#[test]
fn pools_in_the_form_of_the_other_version_are_recognised() {
    let pool = "  router:\n    scheduler:\n      pool:\n        spec:\n          selector:\n            app: x\n          targetPortNumber: 8000\n";
    let found = report(&service(pool));
    let hints: Vec<_> = found.findings.iter().filter_map(|finding| finding.hint.as_deref()).collect();
    assert!(hints.iter().any(|hint| hint.contains("`selector.matchLabels`")), "{hints:#?}");
    assert!(hints.iter().any(|hint| hint.contains("targetPorts: [{number: 8000}]")), "{hints:#?}");
    let criticality = service("").replace("uri:", "criticality: High\n    uri:");
    assert!(
        finding_lines(&criticality)[0].contains("only v1alpha1 has this field"),
        "{:?}",
        finding_lines(&criticality)
    );
}

#[test]
fn objects_that_are_given_twice_and_kinds_that_are_not_known_are_said() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let text = format!(
        "{map}---\n{map}---\napiVersion: example.com/v1\nkind: Odd\nmetadata: {{name: b}}\n---\napiVersion: serving.kserve.io/v1alpha3\nkind: LLMInferenceService\nmetadata: {{name: c}}\n"
    );
    assert_eq!(
        finding_lines(&text),
        [
            "7:12 error metadata.name Duplicate (the second object would replace the first one: remove or \
             rename one of them)",
            "9:1 note  NotChecked",
            "14:1 error kind NoMatch (write `serving.kserve.io/v1alpha2` or `serving.kserve.io/v1alpha1`)",
        ]
    );
}

#[test]
fn kinds_of_other_groups_and_names_of_no_namespace_are_told_apart() {
    let object = |api_version: &str, kind: &str| {
        finding_lines(&format!(
            "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{}}\n"
        ))
    };
    let note = ["1:1 note  NotChecked"];
    let not_run = format!("1:1 note  NotChecked ({INFERENCE_SERVICE})");
    assert_eq!(object("serving.kserve.io/v1beta1", "InferenceService"), [not_run]);
    assert_eq!(object("serving.kserve.io/v1alpha1", "LocalModelCache"), note);
    assert_eq!(object("example.com/v1", "Anything"), note);
    assert_eq!(
        object("llm-d.ai/v1alpha1", "LLMInferenceService"),
        ["2:1 error kind NoMatch (write `apiVersion: serving.kserve.io/v1alpha2`)"]
    );
    assert_eq!(
        object("serving.kserve.io/v1alpha1", "HTTPRoute"),
        ["2:1 error kind NoMatch (write `apiVersion: gateway.networking.k8s.io/v1`)"]
    );
    assert_eq!(object("gateway.networking.k8s.io/v1beta1", "HTTPRoute"), [""; 0]);
    let namespace = |name: &str| {
        finding_lines(
            &service("  router: {route: {}, gateway: {}}\n")
                .replace("{name: one}", &format!("{{name: one, namespace: {name}}}")),
        )
    };
    assert_eq!(namespace("My_NS"), ["3:23 error metadata.namespace FieldValueInvalid"]);
    assert_eq!(
        namespace("'${NS}'"),
        [
            "3:23 error metadata.namespace FieldValueInvalid (replace this placeholder first, or leave the namespace out)"
        ]
    );
}

#[test]
fn other_kinds_are_checked_as_a_server_does() {
    let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  replica: 1\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: c}}\n    spec: {containers: [{name: x, image: example/y}]}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: b}\nspec: {ports: [{port: 80}], selector: {a: b}}\n";
    let found = finding_lines(text);
    assert!(found[0].starts_with("5:3 error spec.replica UnknownField"), "{found:#?}");
    assert!(found[1].contains("error spec.template.metadata.labels FieldValueInvalid"), "{found:#?}");
    assert_eq!(found.len(), 2, "{found:#?}");
}

#[test]
fn old_objects_are_checked_by_their_own_schema_and_with_their_layers() {
    let text = service("  router: {route: {}, gateway: {}, scheduler: {}}\n").replace("v1alpha2", "v1alpha1");
    assert!(report(&text).is_clean(), "{:#?}", report(&text).findings);
    assert_eq!(
        finding_lines(&service("  replcas: 1\n").replace("v1alpha2", "v1alpha1")),
        ["7:3 error spec.replcas UnknownField (did you mean `replicas`?)"]
    );
}

#[test]
fn names_that_no_server_takes_are_refused() {
    let text = service("").replace("name: one", "name: One");
    assert!(
        finding_lines(&text)
            .iter()
            .any(|line| line.starts_with("3:12 error metadata.name FieldValueInvalid")),
        "{:?}",
        finding_lines(&text)
    );
}

#[test]
fn contents_that_longboat_cannot_read_are_errors_at_their_key() {
    let secret = |label: &str, entries: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: a, labels: {{longboat.dev/api-key: '{label}'}}}}\nstringData: {{{entries}}}\n"
        )
    };
    let settings = |data: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: inferenceservice-config, namespace: kserve}}\ndata:\n  storageInitializer: '{{\"memoryRequest\": \"1\", \"memoryLimit\": \"1\", \"cpuRequest\": \"1\", \"cpuLimit\": \"1\"}}'\n{data}"
        )
    };
    let key = "key: sk-0123456789abcdef";
    for (text, expected) in [
        (secret("true", key), vec![]),
        (secret("true", "key: short"), vec!["4:1 error stringData ApiKeyRefused"]),
        (
            secret("true", &format!("{key}, requestPerMinute: '1'")),
            vec!["4:1 error stringData ApiKeyRefused"],
        ),
        (secret("yes", key), vec!["4:1 error stringData ApiKeyRefused"]),
        (
            format!("{}---\n{}", secret("true", key), secret("true", key).replace("name: a", "name: b")),
            vec!["9:1 error stringData ApiKeyRefused"],
        ),
        (settings("  longboat: '{}'\n"), vec![]),
        (
            settings("  longboat: '{\"pickerClient\": []}'\n"),
            vec!["6:3 error data.longboat PlatformSettings (did you mean `pickerClients`?)"],
        ),
        (
            settings("  ingres: '{}'\n  credentials: '{\"storageSpecSecretNames\": \"a\"}'\n"),
            vec![
                "6:3 warning data.ingres UnknownSetting (did you mean `ingress`?)",
                "7:3 warning data.credentials UnknownSetting (did you mean `storageSpecSecretName`?)",
            ],
        ),
    ] {
        assert_eq!(finding_lines(&text), expected, "{text}");
    }
}

#[test]
fn plain_text_in_the_data_of_a_secret_is_told_its_place() {
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\ndata:\n  a: aGY=\n  HF_TOKEN: hf_abc def\n";
    assert_eq!(
        finding_lines(secret),
        [
            "6:3 error data[HF_TOKEN] BadRequest (the values of `data` are base64: write plain text below `stringData`)"
        ]
    );
}

#[test]
fn a_value_that_does_not_decode_is_told_its_place() {
    let pod = |container: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n  - {{name: a, image: b}}\n  - {{name: c, image: d, \
             {container}}}\n"
        );
        finding_messages(&text).into_iter().next().unwrap_or_default()
    };
    for (container, start) in [
        (
            "resources: {limits: {cpu: 1, memory: 1Gi, example.com/gpu: 1GB}}",
            "7 error spec.containers[1].resources.limits[example.com/gpu]: ",
        ),
        ("env: [{name: A, value: a}, {name: B, value: true}]", "7 error spec.containers[1].env[1].value: "),
        ("ports: {containerPort: 80}", "7 error spec.containers[1].ports: "),
    ] {
        let found = pod(container);
        assert!(found.starts_with(start), "{container}: {found}");
    }
}

#[test]
fn an_item_without_a_value_is_told_its_place() {
    let lora = finding_messages(
        &service("").replace("uri: hf://org/model", "uri: hf://org/model\n    lora: {adapters: [null]}"),
    );
    assert_eq!(
        lora,
        ["7 error spec.model.lora.adapters[0]: has no value: remove the item, or write its value"]
    );
    let base = finding_messages(&service("  baseRefs:\n  -\n"));
    assert!(base.len() == 1 && base[0].starts_with("8 error spec.baseRefs[0]: "), "{base:#?}");
}

#[test]
fn only_one_priority_class_can_be_the_default() {
    let class = |name: &str, is_default: bool| {
        format!(
            "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: 1\n\
             globalDefault: {is_default}\n---\n"
        )
    };
    let text = [class("a", true), class("b", false), class("c", true)].concat();
    let why = "PriorityClass a is already marked as default. Only one default can exist";
    assert_eq!(finding_messages(&text), [format!("17 error globalDefault: {why}")]);
}

/// A service whose pod has this many containers, beside that of the preset, with these lines each.
fn containers(count: usize, lines: &str) -> String {
    let containers = (0..count).map(|number| format!("    - name: c{number}\n{lines}"));
    service(&format!("  template:\n    containers:\n{}", containers.collect::<String>()))
}

#[test]
fn an_object_that_is_too_large_is_refused_for_this_alone() {
    let found = report(&containers(30_000, "      image: registry.example/a/b/c:1.0\n")).findings;
    assert!(!found.is_empty());
    for finding in found {
        assert_eq!(finding.reason, "RequestEntityTooLarge", "{}", finding.line());
    }
}

#[test]
fn of_many_refused_fields_of_a_child_a_hundred_are_listed() {
    let found = report(&containers(150, "")).findings;
    let errors: Vec<_> = found.iter().filter(|finding| finding.reason == "FieldValueRequired").collect();
    assert_eq!(errors.len(), 101);
    let (rest, listed): (Vec<_>, Vec<_>) = errors.into_iter().partition(|error| error.path == "spec");
    assert!(listed.iter().all(|error| error.path.starts_with("spec.template.containers[name=c")));
    let [rest] = rest.as_slice() else { panic!("{rest:#?}") };
    assert!(rest.message.starts_with("50 more errors that are not listed"), "{}", rest.line());
}

#[test]
fn a_long_value_is_printed_shortened() {
    let value = "y".repeat(1_000_000);
    let found = report(&service(&format!(
        "  template:\n    containers:\n    - name: main\n      imagePullPolicy: {value}\n"
    )))
    .findings;
    let [finding] = found.as_slice() else { panic!("{}", found.len()) };
    let line = finding.line();
    assert!(
        line.len() < 3000 && line.contains("more characters) …") && line.contains("IfNotPresent"),
        "{line}"
    );
}

#[test]
fn an_object_with_the_name_of_a_child_is_an_error_of_the_service_whatever_its_kind() {
    let pod = "{metadata: {labels: {a: b}}, spec: {containers: [{name: x, image: who}]}}";
    let selector = "selector: {matchLabels: {a: b}}";
    let deployment = format!("{{{selector}, template: {pod}}}");
    let group = format!("{{leaderWorkerTemplate: {{workerTemplate: {pod}}}}}");
    let autoscaler = "{maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}}";
    let router = "  router: {route: {}, gateway: {}, scheduler: {}}\n";
    let groups = "  parallelism: {data: 2, dataLocal: 1}\n  worker: {containers: [{name: main}]}\n";
    let scaled = "  scaling: {maxReplicas: 3, wva: {hpa: {}}}\n";
    for (lines, api_version, kind, name, spec) in [
        (router, "apps/v1", "Deployment", "one-kserve", &*deployment),
        (router, "apps/v1", "Deployment", "one-kserve-router-scheduler", &deployment),
        (router, "v1", "Service", "one-kserve-workload-svc", "{ports: [{port: 80}]}"),
        (groups, "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "one-kserve-mn", &group),
        (scaled, "autoscaling/v2", "HorizontalPodAutoscaler", "one-kserve-hpa", autoscaler),
    ] {
        let object = format!(
            "---\napiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        );
        let found = finding_messages(&(service(lines) + &object));
        let end = format!(
            ".{kind} default/{name}: it is not controlled by v1alpha2.LLMInferenceService default/one"
        );
        assert!(
            found.iter().any(|line| line.starts_with("4 error spec: ") && line.ends_with(&end)),
            "{kind}: {found:#?}"
        );
    }
    // The children of the service itself.
    let scene = Scene::new(&parse("f.yaml", &service(router)).unwrap(), &Settings::default()).unwrap();
    let own = render::documents(&scene, &scene.subjects[0].service).unwrap().objects;
    // Its certificate is issued later.
    let own =
        own.split("---\n").filter(|one| !one.contains("\nkind: Secret\n")).collect::<Vec<_>>().join("---\n");
    assert_eq!(finding_lines(&format!("{}---\n{own}", service(router))), [""; 0]);
}
