//! Advice, as `validate` and `render` give it.

use longboat_manifest::{parse, parse_all};

use crate::{
    Settings, render,
    scene::Scene,
    validate::{Finding, Source, validate},
};

const LONG: &str = "a-rather-long-name-for-an-inference-service-of-team-blue";

/// Returns a service of that name with these lines in its spec. The first one is line 5.
pub(super) fn service(name: &str, lines: &str) -> String {
    format!(
        "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {{name: {name}}}\nspec:\n{lines}"
    )
}

fn findings(text: &str) -> Vec<Finding> {
    let mut findings = validate(parse_all("f.yaml", text), &Settings::default()).findings;
    // Which objects the cluster must have is no topic of these tests.
    findings.retain(|finding| finding.reason != "NotInTheseFiles");
    findings
}

/// Returns the findings as `line:column severity path: message (hint)`.
pub(super) fn said(text: &str) -> Vec<String> {
    let show = |finding: &Finding| {
        let (line, column) = (finding.line.unwrap_or_default(), finding.column.unwrap_or_default());
        let hint = finding.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let Finding { path, message, .. } = finding;
        format!("{line}:{column} {} {path}: {message}{hint}", finding.severity.name())
    };
    findings(text).iter().map(show).collect()
}

/// Returns the notes of `render` that are warnings for this reason.
fn noted(text: &str, reason: &str) -> Vec<String> {
    let scene = Scene::new(&parse("f.yaml", text).unwrap(), &Settings::default()).unwrap();
    let rendered = render::children(&scene, &scene.subjects[0].service).unwrap();
    let warnings = rendered.notes.into_iter().filter(|note| note.severity == render::Severity::Warning);
    warnings.map(|note| note.message).filter(|message| message.starts_with(reason)).collect()
}

const ROUTE: &str = "  model: {uri: 'hf://a/b', name: q}
  router:
    route:
      http:
        spec:
          parentRefs: [{name: edge, namespace: edge}]
          rules:
          - backendRefs:
            - {group: '', kind: Service, name: NAME-kserve-workload-svc, port: 8000}
";

#[test]
fn a_route_to_the_unshortened_name_of_a_child_is_warned_about_with_the_real_name() {
    let text = service(LONG, &ROUTE.replace("NAME", LONG));
    let scene = Scene::new(&parse("f.yaml", &text).unwrap(), &Settings::default()).unwrap();
    let children = render::children(&scene, &scene.subjects[0].service).unwrap().objects;
    let real = children.iter().find(|child| child.value["kind"] == "Service").unwrap();
    let real = real.value["metadata"]["name"].as_str().unwrap();
    let expected = format!(
        "names {LONG}-kserve-workload-svc, which will not exist: names have at most 63 characters, so the controller \
         shortens this one to {real}"
    );
    let hint = format!(
        "write `{real}`, or move the field to an LLMInferenceServiceConfig in spec.baseRefs and write `{{{{ ChildName \
         .ObjectMeta.Name `-kserve-workload-svc` }}}}` there"
    );
    let path = "spec.router.route.http.spec.rules[0].backendRefs[0].name";
    assert_eq!(said(&text), [format!("13:42 warning {path}: {expected} ({hint})")]);
    assert_eq!(noted(&text, "HashedName"), [format!("HashedName: {path} {expected}; {hint}")]);
    // Short names are not hashed.
    assert_eq!(said(&service("short", &ROUTE.replace("NAME", "short"))), Vec::<String>::new());
}

#[test]
fn names_inside_arguments_and_in_templates_of_configs_are_found_too() {
    let args = format!(
        "  model: {{uri: 'hf://a/b'}}\n  baseRefs: [{{name: base}}]\n  template:\n    containers:\n    - name: main\n      args: ['--otlp-traces-endpoint=http://{LONG}-epp-service.default:80', '--chat-template={LONG}-epp-service-2']\n"
    );
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base}\nspec:\n  template:\n    containers:\n    - name: main\n      env:\n      - {name: POOL, value: '{{ .ObjectMeta.Name }}-inference-pool'}\n";
    let found = findings(&(service(LONG, &args) + config));
    let places: Vec<_> = found
        .iter()
        .map(|finding| (finding.line.unwrap(), finding.path.as_str(), finding.reason.as_str()))
        .collect();
    assert_eq!(
        places,
        [
            (10, "spec.template.containers[0].args[0]", "HashedName"),
            (20, "spec.template.containers[0].env[0].value", "HashedName")
        ]
    );
    let hint = found[1].hint.as_deref();
    assert_eq!(hint, Some("write `{{ ChildName .ObjectMeta.Name `-inference-pool` }}`"));
    let proper = config.replace(
        "'{{ .ObjectMeta.Name }}-inference-pool'",
        "'{{ ChildName .ObjectMeta.Name `-inference-pool` }}'",
    );
    assert_eq!(findings(&(service(LONG, &args) + &proper)).len(), 1);
}

#[test]
fn a_token_that_does_not_reach_the_download_is_warned_about() {
    let token = "{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: HF_TOKEN}}}";
    let lines = format!(
        "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      env: [{token}]\n"
    );
    assert_eq!(
        said(&service("gated", &lines)),
        ["9:13 warning spec.template.containers[0].env[0]: does not reach the download: the init container \
             storage-initializer downloads models from hf://, before the container main starts (set HF_TOKEN in \
             `spec.template.initContainers[name=storage-initializer].env` too, or name a Secret with the key HF_TOKEN in \
             the annotation serving.kserve.io/storageSecretName)"]
    );
    let both = format!("{lines}    initContainers: [{{name: storage-initializer, env: [{token}]}}]\n");
    let annotated = service("gated, annotations: {serving.kserve.io/storageSecretName: hf}", &lines)
        + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: hf}\nstringData: {HF_TOKEN: a}\n";
    let account = lines.replace("  template:\n", "  template:\n    serviceAccountName: own\n");
    let elsewhere = lines.replace("hf://a/b", "pvc://claim/m");
    for text in [service("gated", &both), annotated, service("gated", &account), service("gated", &elsewhere)]
    {
        assert_eq!(said(&text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn the_keys_of_a_bucket_on_the_model_server_do_not_reach_the_download_either() {
    let lines = |uri: &str| {
        format!(
            "  model: {{uri: '{uri}'}}\n  template:\n    containers:\n    - name: main\n      env: [{{name: AWS_SECRET_ACCESS_KEY, value: a}}]\n"
        )
    };
    let [found] = &said(&service("s", &lines("s3://bucket/m")))[..] else { panic!("one warning") };
    assert!(
        found.contains("downloads models from s3://") && found.contains("set AWS_SECRET_ACCESS_KEY in"),
        "{found}"
    );
    assert_eq!(said(&service("s", &lines("hf://a/b"))), Vec::<String>::new());
}

#[test]
fn variables_that_vllm_does_not_read_are_warned_about() {
    let lines = |name: &str, main: &str| {
        format!(
            "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      {main}\n      env: [{{name: VLLM_{name}, value: '1'}}]\n"
        )
    };
    let text = |name: &str, main: &str| said(&service("s", &lines(name, main)));
    let older = "it is right only if the image has an older vLLM that reads it. Otherwise";
    for (name, hint) in [
        ("USE_V1", format!("{older} remove it: there is only this engine")),
        ("MAX_MODEL_LEN", format!("{older} give vLLM the flag --max-model-len")),
        ("LOGING_LEVEL", "did you mean VLLM_LOGGING_LEVEL?".to_owned()),
    ] {
        let version = longboat_api::vllm_flags::version();
        assert_eq!(
            text(name, "image: a/b:1"),
            [format!(
                "10:13 warning spec.template.containers[0].env[0]: has no effect: vLLM {version} does not read VLLM_{name} ({hint})"
            )]
        );
    }
    // The script reads it; another program may.
    let name = "MAX_MODEL_LEN";
    let script = format!(
        "command: [/bin/bash, -c, 'vllm serve /mnt/models --served-model-name s --max-model-len $VLLM_{name}']"
    );
    for main in [&script, "command: [/app/start]"] {
        assert_eq!(text(name, main), Vec::<String>::new(), "{main}");
    }
}

#[test]
fn additional_arguments_that_no_command_reads_are_warned_about() {
    let lines = |command: &str| {
        format!(
            "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      {command}\n      env: [{{name: VLLM_ADDITIONAL_ARGS, value: --max-model-len=10}}]\n"
        )
    };
    assert_eq!(
        said(&service("s", &lines("command: [vllm, serve, /mnt/models, --served-model-name, s]"))),
        [
            "10:13 warning spec.template.containers[0].env[0]: has no effect: the start scripts of presets read it, and the \
             command of container main does not (write the arguments into `spec.template.containers[name=main].args`)"
        ]
    );
    for command in [
        "image: own/image:1",
        "command: [/bin/sh, -c, 'vllm serve /mnt/models $VLLM_ADDITIONAL_ARGS']",
        "command: [/app/start]",
    ] {
        assert_eq!(said(&service("s", &lines(command))), Vec::<String>::new(), "{command}");
    }
}

#[test]
fn a_model_of_the_hub_beside_the_downloaded_one_is_warned_about() {
    let lines = |args: &str| {
        format!(
            "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      args: {args}\n"
        )
    };
    let expected = |at: &str| {
        format!(
            "9:{at}: names the model a/b of the Hugging Face hub: the server downloads it again, or ignores it, because \
             spec.model.uri is at /mnt/models already (remove `--model a/b`, or write `--model=/mnt/models` if the command \
             needs it)"
        )
    };
    for (args, at) in [
        ("[--model=a/b]", "14 warning spec.template.containers[0].args[0]"),
        ("[--model, a/b]", "23 warning spec.template.containers[0].args[1]"),
    ] {
        assert_eq!(said(&service("s", &lines(args))), [expected(at)], "{args}");
    }
    let serve = |model: &str| {
        lines(&format!("['vllm serve {model} --served-model-name s']"))
            .replace("args:", "command: [sh, -c]\n      args:")
    };
    let found = said(&service("s", &serve("a/b")));
    assert!(found.len() == 1 && found[0].contains("names the model a/b of"), "{found:#?}");
    assert!(found[0].ends_with("(write `/mnt/models` in its place)"), "{found:#?}");
    assert_eq!(said(&service("s", &serve("/mnt/models"))), Vec::<String>::new());
    for args in ["[--model, /mnt/models]", "[--model=/mnt/models]", "[--tokenizer, a/b]"] {
        assert_eq!(said(&service("s", &lines(args))), Vec::<String>::new(), "{args}");
    }
}

#[test]
fn a_command_that_names_no_model_is_told_so() {
    let told = |words: &str| {
        let lines = format!(
            "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      command: {words}\n"
        );
        said(&service("s", &lines))
    };
    let none = told("[vllm, serve, --max-model-len=10, --dtype, half]");
    assert!(
        none.len() == 1 && none[0].contains("names no model: vLLM serves a default of its own"),
        "{none:#?}"
    );
    let later = told("[vllm, serve, --enforce-eager, /mnt/models]");
    assert!(later.len() == 1 && later[0].contains("serve the model as /mnt/models only"), "{later:#?}");
}

#[test]
fn an_address_that_names_no_model_is_one_error() {
    for (uri, problem) in [
        ("hf://Qwen", "expected hf://OWNER/MODEL[:REVISION]: the owner or the model is missing"),
        (
            "file://./model",
            "expected file:///PATH: the path must be absolute, because the download has a folder of its own",
        ),
    ] {
        let text = service("s", &format!("  model: {{uri: '{uri}', name: m}}\n"));
        assert_eq!(
            said(&text),
            [format!("5:11 error spec.model.uri: \"{uri}\" cannot be fetched: {problem}")]
        );
    }
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base}\nspec:\n  model:\n    uri: hf://Qwen\n";
    let found = findings(&(service("s", "  model: {uri: ''}\n  baseRefs: [{name: base}]\n") + config));
    let places: Vec<_> =
        found.iter().map(|finding| (finding.line.unwrap(), finding.severity.name())).collect();
    assert!(places.contains(&(13, "error")), "{found:#?}");
}

#[test]
fn names_that_are_no_single_word_of_a_shell_are_warned_about() {
    let lines = "  model:\n    uri: hf://a/b\n    name: 'x; touch y'\n    lora:\n      adapters:\n      - {name: 'a$(id)', uri: 'hf://a/c'}\n      - {name: ok/it, uri: 'hf://a/d'}\n";
    let found = findings(&service("s", lines));
    let places: Vec<_> =
        found.iter().map(|finding| (finding.line.unwrap(), finding.path.as_str(), finding.source)).collect();
    assert_eq!(
        places,
        [(7, "spec.model.name", Source::Webhook), (10, "spec.model.lora.adapters[0].name", Source::Webhook)]
    );
    assert!(found[0].message.starts_with("\"x; touch y\" is no single word for a shell"), "{found:#?}");
}

#[test]
fn an_annotated_secret_that_is_not_in_the_files_is_warned_about() {
    let annotated = |uri: &str| {
        service(
            "s, annotations: {serving.kserve.io/storageSecretName: keys}",
            &format!("  model: {{uri: '{uri}'}}\n"),
        )
    };
    assert_eq!(
        said(&annotated("s3://bucket/m")),
        [
            "3:35 warning metadata.annotations[serving.kserve.io/storageSecretName]: Secret default/keys is not in these \
             files (it must exist on the cluster before the model can be downloaded)"
        ]
    );
    assert_eq!(said(&annotated("pvc://claim")), Vec::<String>::new());
}

#[test]
fn a_fixed_shared_memory_below_the_cache_is_warned_about_where_it_is_written() {
    let with = |volumes: &str| {
        service(
            "one",
            &format!("  model: {{uri: 'hf://a/b'}}\n  kvCacheOffloading: {{cpu: 10Gi}}\n{volumes}"),
        )
    };
    assert_eq!(said(&with("")), Vec::<String>::new());
    let fixed =
        "  template:\n    volumes:\n    - name: dshm\n      emptyDir: {medium: Memory, sizeLimit: 1Gi}\n";
    assert_eq!(
        said(&with(fixed)),
        [
            "10:34 warning spec.template.volumes[0].emptyDir.sizeLimit: is 1Gi, less than the 10Gi of KV cache \
             (kvCacheOffloading.cpu) that /dev/shm has to hold (set more than 10Gi, or remove the size, which the presets then \
             choose)"
        ]
    );
    assert_eq!(noted(&with(fixed), "SmallSharedMemory").len(), 1);
}

#[test]
fn routing_by_model_for_an_engine_without_the_published_name_is_warned_about() {
    let with = |runtime: &str| {
        service(
            "one",
            &format!(
                "  model: {{uri: 'hf://a/b', name: b}}\n{runtime}  router: {{route: {{}}, gateway: {{}}, scheduler: {{}}}}\n  annotations:\n    serving.kserve.io/model-based-routing-enabled: \"true\"\n"
            ),
        )
    };
    assert_eq!(said(&with("")), Vec::<String>::new());
    let found = said(&with("  runtime: kserve-llm-sglang\n"));
    let start = "9:5 warning spec.annotations[serving.kserve.io/model-based-routing-enabled]: has no effect: SGLang serves";
    assert!(found.len() == 1 && found[0].starts_with(start), "{found:#?}");
}

#[test]
fn a_picker_to_which_no_route_leads_is_warned_about() {
    let with = |router: &str| {
        service("one", &format!("  model: {{uri: 'hf://a/b', name: b}}\n  router: {router}\n"))
    };
    let found = said(&with("{scheduler: {}}"));
    let start = "6:12 warning spec.router.scheduler: has a pool to which no route leads: ";
    assert!(found.len() == 1 && found[0].starts_with(start), "{found:#?}");
    for router in
        ["{route: {}, scheduler: {}}", "{gateway: {}, route: {}}", "{scheduler: {pool: {ref: {name: p}}}}"]
    {
        assert!(!said(&with(router)).iter().any(|text| text.contains("no route leads")), "{router}");
    }
    let route = |namespace: &str| {
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: own, namespace: edge}}\nspec:\n\
             \x20 rules:\n  - backendRefs: [{{group: inference.networking.k8s.io, kind: InferencePool, \
             name: one-inference-pool{namespace}}}]\n"
        )
    };
    let routed = |namespace: &str| said(&format!("{}{}", with("{scheduler: {}}"), route(namespace)));
    assert_eq!(routed(", namespace: default"), Vec::<String>::new());
    assert_eq!(routed("").len(), 1, "the pool of another namespace");
    let own = |backend: &str| {
        with(&format!(
            "{{scheduler: {{}}, gateway: {{}}, route: {{http: {{spec: {{rules: [{{backendRefs: [{backend}]}}]}}}}}}}}"
        ))
    };
    let found = said(&own("{name: theirs, port: 80}"));
    assert!(found.len() == 1 && found[0].contains("no route leads"), "{found:#?}");
    let pool = "group: inference.networking.k8s.io, kind: InferencePool, name: one-inference-pool";
    assert_eq!(said(&own(&format!("{{{pool}}}"))), [""; 0]);
    let found = said(&own(&format!("{{{pool}, weight: 0}}")));
    assert!(found.len() == 1 && found[0].contains("no back end with a weight above 0"), "{found:#?}");
}

#[test]
fn a_name_of_the_model_that_a_config_replaces_is_warned_about() {
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base}\nspec:\n  model: {uri: \
                  'hf://a/b', name: theirs}\n";
    let with = |model: &str| {
        said(&format!(
            "{}{config}",
            service("one", &format!("  model: {model}\n  baseRefs: [{{name: base}}]\n"))
        ))
    };
    let found = with("{uri: 'hf://a/b', name: ours}");
    let start =
        "12:28 warning spec.model.name: is theirs because of a config, although the service says ours";
    assert!(found.len() == 1 && found[0].starts_with(start), "{found:#?}");
    assert_eq!(with("{uri: 'hf://a/b'}"), [""; 0]);
}

#[test]
fn a_pool_whose_selector_fits_no_pod_of_the_service_is_warned_about() {
    let router_with = |labels: &str, selector: &str, port: u16| {
        let picker = "{name: s-epp-service, port: {number: 9002}}";
        let lines = [
            &format!("{labels}  model: {{uri: 'hf://a/b', name: q}}"),
            "  router:",
            "    gateway: {}",
            "    route: {}",
            "    scheduler:",
            "      pool:",
            "        spec:",
            &format!("          targetPorts: [{{number: {port}}}]"),
            &format!("          endpointPickerRef: {picker}"),
            &format!("          selector: {{matchLabels: {selector}}}"),
        ];
        service("s", &lines.join("\n"))
    };
    let router = |labels: &str, selector: &str| router_with(labels, selector, 8000);
    let expected = "selects no pod of this service (app=other): unless other pods have these labels, every request gets 503";
    let of = |text: &str| findings(text).into_iter().map(|finding| finding.message).collect::<Vec<_>>();
    assert_eq!(of(&router("", "{app: other}")), [expected]);
    assert_eq!(of(&router("  labels: {app: other}\n", "{app: other}")), [""; 0]);
    assert_eq!(
        of(&router_with("  labels: {app: other}\n", "{app: other}", 9999)),
        ["is 9999, at which no container of this service listens: every request gets 502 or 503"]
    );
}

#[test]
fn triggers_that_keda_cannot_evaluate_are_errors() {
    let scaled = |trigger: &str| {
        service(
            "one",
            &format!(
                "  model: {{uri: 'hf://a/b'}}\n  scaling:\n    maxReplicas: 3\n    keda:\n      triggers:\n      - type: {trigger}\n"
            ),
        )
    };
    let metadata = "\n        metadata: {query: 'sum(a)', serverAddress: 'http://p', threshold: x}";
    let path = "spec.scaling.keda.triggers[0]";
    let not = "so KEDA does not scale the workload";
    assert_eq!(
        said(&scaled("promethues\n        metadata: {}")),
        [format!(
            "10:9 error {path}.type: is \"promethues\", which is no type of KEDA's triggers, {not} (did you mean `prometheus`?)"
        )]
    );
    assert_eq!(
        said(&scaled("tomorrow\n        metadata: {}")),
        [format!("10:9 warning {path}.type: is \"tomorrow\", which is no type of KEDA's triggers, {not}")]
    );
    assert_eq!(
        said(&scaled(&format!("prometheus{metadata}"))),
        [format!("11:64 error {path}.metadata.threshold: is \"x\": expected a number, such as \"5\", {not}")]
    );
    assert_eq!(
        said(&scaled(&format!("prometheus{}", metadata.replace("threshold: x", "threshold: '1'")))),
        [""; 0]
    );
}

#[test]
fn a_probe_that_the_server_does_not_understand_is_warned_about() {
    let probe = |scheme: &str, container: &str| {
        let lines = format!(
            "  model: {{uri: 'hf://a/b', name: q}}
  template:
    containers:
    - name: main
      livenessProbe: {{httpGet: {{path: /health, port: 8000, scheme: {scheme}}}}}
{container}"
        );
        let findings = findings(&service("a", &lines));
        findings.into_iter().filter(|finding| finding.reason == "ProbeScheme").collect::<Vec<_>>()
    };
    let wrong = probe("HTTPS", "");
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert_eq!(
        (wrong[0].line, &*wrong[0].path),
        (Some(9), "spec.template.containers[0].livenessProbe.httpGet")
    );
    assert_eq!(probe("HTTP", ""), []);
    // All three probes: those of the preset use HTTP.
    assert_eq!(probe("HTTP", "      args: [--ssl-certfile=/c.pem]\n").len(), 3);
    assert_eq!(probe("HTTPS", "      command: [my-server]\n"), []);
}

#[test]
fn arguments_that_contradict_the_preset_or_that_vllm_lacks_are_named() {
    let with = |field: &str| {
        service(
            "one",
            &format!(
                "  model: {{uri: 'hf://a/b', name: m}}\n  template:\n    containers:\n    - name: main\n      {field}\n"
            ),
        )
    };
    let main = "spec.template.containers[0]";
    for (field, expected) in [
        (
            "args: [--max-modle-len, '8']",
            format!(
                "9:14 warning {main}.args[0]: has --max-modle-len, which is no flag of vLLM 0.32.0: vLLM does not start with flags that it does not know (did you mean `--max-model-len`?)"
            ),
        ),
        (
            "env: [{name: VLLM_ADDITIONAL_ARGS, value: '--dtipe half'}]",
            format!(
                "9:42 warning {main}.env[0].value: has --dtipe, which is no flag of vLLM 0.32.0: vLLM does not start with flags that it does not know (did you mean `--dtype`?)"
            ),
        ),
        (
            "args: ['--served-model-name=other']",
            format!(
                "9:14 warning {main}.args[0]: makes vLLM serve the model as other only: requests for m, the name in spec.model.name, get 404 (remove --served-model-name, and set spec.model.name)"
            ),
        ),
        (
            "args: [--port, '9000']",
            format!(
                "9:14 error {main}.args[0]: makes vLLM listen on port 9000, but its probes and the Service use port 8000: no pod becomes ready (remove --port: the preset sets it)"
            ),
        ),
        (
            "args: [--host, 127.0.0.1]",
            format!(
                "9:14 warning {main}.args[0]: makes vLLM listen on 127.0.0.1, where nobody outside of the pod reaches it: neither probes nor the picker (remove --host: vLLM then listens on all addresses)"
            ),
        ),
        (
            "command: [vllm, serve, m]\n      args: ['--max-model-len 1000']",
            format!(
                "10:14 warning {main}.args[0]: gives vLLM \"--max-model-len 1000\" as one argument, which is no flag of it: vLLM does not start (write two items: `- --max-model-len` and `- \"1000\"`)"
            ),
        ),
    ] {
        assert_eq!(said(&with(field)), [expected]);
    }
    for field in [
        // The start script of the preset parts the words of an item.
        "args: ['--max-model-len 1000', --host, 0.0.0.0]",
        "args: [--port, '8000', --served-model-name, other, m, \"--hf-overrides='{\\\"--a\\\": 1}'\"]",
        "command: [my-server]\n      args: [--max-modle-len, '8', --port, '9']",
    ] {
        assert_eq!(said(&with(field)), [""; 0]);
    }
}
