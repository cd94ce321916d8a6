//! What `validate` says about pickers: their configurations and their flags.

use super::{Finding, finding_lines, finding_messages, report, service};

/// A service with this configuration of its picker, written as an object. Its first line is line 11.
fn with_picker(config: &str) -> String {
    let config: Vec<_> = config.lines().map(|line| format!("          {line}\n")).collect();
    let config = config.concat();
    service(&format!("  router:\n    scheduler:\n      config:\n        inline:\n{config}"))
}

const PICKER: &str = "apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorer
    weight: 2
  - pluginRef: max-score-picker
";

#[test]
fn what_a_picker_would_refuse_is_an_error_at_its_line() {
    assert_eq!(finding_lines(&with_picker(PICKER)), [""; 0]);
    let profile = "spec.router.scheduler.config.inline.schedulingProfiles[0].plugins[0]";
    for (from, to, wanted) in [
        (
            "type: queue-scorer",
            "type: queue-scorerr",
            "14:13 error spec.router.scheduler.config.inline.plugins[0].type".to_owned(),
        ),
        ("weight: 2", "wieght: 2", format!("20:15 error {profile}.wieght")),
        ("weight: 2", "weight: -2", format!("20:15 error {profile}.weight")),
        ("Ref: queue-scorer", "Ref: queue-score", format!("19:15 error {profile}.pluginRef")),
        ("v1alpha1", "v1beta9", "11:11 error spec.router.scheduler.config.inline.apiVersion".to_owned()),
        ("PickerConfig", "PickerConfigs", "12:11 error spec.router.scheduler.config.inline.kind".to_owned()),
        (
            "plugins:\n-",
            "featureGates: [flowControll]\nplugins:\n-",
            "13:26 error spec.router.scheduler.config.inline.featureGates[0]".to_owned(),
        ),
        (
            "- type: max",
            "- type: queue-scorer\n- type: max",
            "15:13 error spec.router.scheduler.config.inline.plugins[1]".to_owned(),
        ),
    ] {
        let text = with_picker(&PICKER.replacen(from, to, 1));
        assert_eq!(finding_lines(&text), [format!("{wanted} PickerConfigRefused")], "{to}");
        let report = report(&text);
        assert!(report.findings[0].message.starts_with("the picker will not start: "), "{report:?}");
        assert!(!report.is_clean() && !report.checked[0].1);
    }
}

#[test]
fn several_mistakes_are_told_at_once() {
    let text = with_picker(
        &PICKER
            .replace(
                "type: max-score-picker",
                "type: max-score-picker\n  parameters: {maxNum: 1}\n- type: kv-cash",
            )
            .replace("Ref: queue-scorer", "Ref: queue-scor")
            .replace("name: default", "name: default\n  pluginz: []"),
    );
    let found = finding_lines(&text);
    let inline = "error spec.router.scheduler.config.inline";
    let places: Vec<&str> =
        found.iter().map(|line| line.split(" Picker").next().unwrap_or_default()).collect();
    assert_eq!(
        places,
        [
            format!("16:26 {inline}.plugins[1].parameters.maxNum"),
            format!("17:13 {inline}.plugins[2].type"),
            format!("20:13 {inline}.schedulingProfiles[0].pluginz"),
            format!("22:15 {inline}.schedulingProfiles[0].plugins[0].pluginRef"),
        ]
    );
}

#[test]
fn another_picker_may_know_more_so_what_ours_refuses_is_a_warning() {
    let text = with_picker(&PICKER.replacen("queue-scorer", "queue-scorerr", 1)).replace(
        "    scheduler:\n",
        "    scheduler:\n      template: {containers: [{name: main, image: my/picker}]}\n",
    );
    assert_eq!(
        finding_lines(&text),
        [
            "15:13 warning spec.router.scheduler.config.inline.plugins[0].type PickerConfigRefused (this is what this build's picker \
             says; my/picker may know other plugins and fields)"
        ]
    );
    assert!(report(&text).is_clean());
}

/// A field that moved, in a document of this version, with this picker. Its first line is line 11, or 12 with a picker.
fn moved(version: &str, picker: &str) -> String {
    let config =
        PICKER.replacen("v1alpha1", version, 1) + "saturationDetector: {pluginRef: utilization-detector}\n";
    with_picker(&config).replacen("    scheduler:\n", &format!("    scheduler:\n{picker}"), 1)
}

#[test]
fn a_field_that_is_gone_is_taken_by_our_picker_and_named_for_the_others() {
    let of = |version: &str, picker: &str| {
        let text = moved(version, picker);
        let clean = report(&text).is_clean();
        (
            finding_lines(&text),
            report(&text).findings.first().map(|found| found.message.clone()).unwrap_or_default(),
            clean,
        )
    };
    let path = "spec.router.scheduler.config.inline.saturationDetector";
    let (lines, message, clean) = of("v1alpha1", "");
    let taken = "PickerConfigVersion (this build's picker takes the field as before)";
    assert_eq!(lines, [format!("22:11 warning {path} {taken}")]);
    assert!(message.ends_with("write flowControl.saturationDetector.pluginRef") && clean, "{message}");

    let (lines, message, clean) = of("v1", "");
    assert_eq!(lines, [format!("22:11 error {path} PickerConfigRefused")]);
    assert!(message.ends_with("write flowControl.saturationDetector.pluginRef") && !clean, "{message}");

    let llmd = |version: &str| {
        format!(
            "      annotations: {{app.kubernetes.io/version: {version}}}\n      template: {{containers: [{{name: main, image: my/picker}}]}}\n"
        )
    };
    let (lines, message, clean) = of("v1alpha1", &llmd("0.11.0"));
    assert!(
        lines.len() == 1 && lines[0].starts_with(&format!("24:11 warning {path} PickerConfigVersion")),
        "{lines:?}"
    );
    assert!(
        message.starts_with("the picker will not start: saturationDetector is not a field of") && clean,
        "{message}"
    );
    assert_eq!(of("v1alpha1", &llmd("0.10.0")).0, [""; 0], "that release reads the field");

    let newest = PICKER.replacen("v1alpha1", "v1", 1);
    assert_eq!(finding_lines(&with_picker(&newest)), [""; 0]);
    let old =
        with_picker(&newest).replacen("    scheduler:\n", &format!("    scheduler:\n{}", llmd("0.10.0")), 1);
    let lines = finding_lines(&old);
    let path = "spec.router.scheduler.config.inline.apiVersion";
    assert!(
        lines.len() == 1 && lines[0].starts_with(&format!("13:11 warning {path} PickerConfigVersion")),
        "{lines:?}"
    );
}

#[test]
fn a_configuration_is_judged_as_the_controller_migrates_it() {
    // The reference migrates these names and parameters to the version that the preset declares.
    let text = "apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: prefill-header-handler
- type: prefill-filter
- type: decode-filter
- type: max-score-picker
- type: pd-profile-handler
  parameters: {threshold: 10, hashBlockSize: 5}
schedulingProfiles:
- name: prefill
  plugins: [{pluginRef: prefill-filter}, {pluginRef: max-score-picker}]
- name: decode
  plugins: [{pluginRef: decode-filter}, {pluginRef: max-score-picker}]
";
    let refused = |text: &str| {
        let all = finding_lines(&with_picker(text));
        all.into_iter().filter(|line| line.ends_with(" PickerConfigRefused")).collect::<Vec<_>>()
    };
    assert_eq!(refused(text), [""; 0]);
    // The migration inserts a plugin before the wrong one.
    assert_eq!(
        refused(&text.replace("schedulingProfiles", "- type: max-score\nschedulingProfiles")),
        ["20:13 error spec.router.scheduler.config.inline.plugins[5].type PickerConfigRefused"]
    );
}

#[test]
fn a_configuration_of_a_config_map_is_judged_at_its_line_there() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: picker}\ndata:\n  epp: |\n";
    let wrong = PICKER.replace("weight", "wieght");
    let block: Vec<_> = wrong.lines().map(|line| format!("    {line}\n")).collect();
    let map = format!("{map}{}", block.concat());
    let by_reference = service("  router: {scheduler: {config: {ref: {name: picker}}}}\n");
    assert_eq!(
        finding_lines(&format!("{map}---\n{by_reference}")),
        ["15:9 error data.epp.schedulingProfiles[0].plugins[0].wieght PickerConfigRefused"]
    );
    // The ConfigMap is in the files, so the key cannot be elsewhere.
    let lacking = map.replace("  epp: |", "  other: |");
    assert_eq!(
        finding_lines(&format!("{lacking}---\n{by_reference}")),
        ["24:24 error spec.router.scheduler.config CombineBaseError"]
    );
    let as_bytes = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: picker}\nbinaryData: {epp: YQ==}\n";
    assert_eq!(
        finding_lines(&format!("{as_bytes}---\n{by_reference}")),
        [
            "12:24 error spec.router.scheduler.config CombineBaseError (write `epp` as text below `data`: it is in `binaryData`, which nobody \
          reads)"
        ]
    );
    let elsewhere = map.replace("{name: picker}", "{name: picker, namespace: other}");
    let found = report(&format!("{elsewhere}---\n{by_reference}")).findings;
    let [finding] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!(
        finding.message,
        "ConfigMap \"picker\" not found in namespaces [default]: it is in namespace other"
    );
    assert_eq!(finding.hint.as_deref(), Some("move the ConfigMap to namespace default"));
    let mounted = service(
        "  router:
    scheduler:
      template:
        containers:
        - name: main
          args: [--config-file, /etc/picker/config.yaml]
          volumeMounts: [{name: config, mountPath: /etc/picker}]
        volumes:
        - name: config
          configMap: {name: picker, items: [{key: epp, path: config.yaml}]}
",
    );
    assert_eq!(
        finding_lines(&format!("{map}---\n{mounted}")),
        ["15:9 error data.epp.schedulingProfiles[0].plugins[0].wieght PickerConfigRefused"]
    );
}

#[test]
fn a_configuration_in_arguments_is_judged_too() {
    let lines = "  router:
    scheduler:
      template:
        containers:
        - name: main
          args:
          - --config-text
          - |
            apiVersion: llm-d.ai/v1alpha1
            kind: EndpointPickerConfig
            plugins:
            - type: queue-scorer
              parameters:
                threshold: 3
";
    let path = "spec.router.scheduler.template.containers[0].args[1].plugins[0].parameters.threshold";
    assert_eq!(finding_lines(&service(lines)), [format!("20:17 error {path} PickerConfigRefused")]);
    let alpha = lines.replace("queue-scorer", "session-affinity-scorer").replace("threshold: 3", "{}");
    assert_eq!(
        finding_lines(&service(&alpha)),
        [
            "18:15 error spec.router.scheduler.template.containers[0].args[1].plugins[0].type PickerConfigRefused"
        ]
    );
    let allowed =
        alpha.replace("- --config-text", "- --allow-experimental-plugins\n          - --config-text");
    assert_eq!(finding_lines(&service(&allowed)), [""; 0]);
}

#[test]
fn a_deprecated_plugin_is_warned_about_wherever_the_configuration_is() {
    let config = "{kind: EndpointPickerConfig, apiVersion: llm-d.ai/v1alpha1, plugins: [{type: precise-prefix-cache-scorer, parameters: \
                  {speculativeIndexing: true}}], schedulingProfiles: [{name: default, plugins: [{pluginRef: \
                  precise-prefix-cache-scorer}]}]}";
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: picker}}\ndata: {{epp: \"{config}\"}}\n---\n"
    );
    let with = |scheduler: &str| service(&format!("  router: {{scheduler: {{{scheduler}}}}}\n"));
    let arguments = format!("template: {{containers: [{{name: main, args: [--config-text, '{config}']}}]}}");
    for (text, path) in [
        (with(&arguments), "spec.router.scheduler.template.containers[0].args[1].plugins[0].type"),
        // A tokenizer comes with presets only if the service itself has the configuration.
        (map + &with("config: {ref: {name: picker}}, tokenizer: {}"), "data.epp.plugins[0].type"),
        (with(&format!("config: {{inline: {config}}}")), "spec.router.scheduler.config.inline"),
    ] {
        let found = finding_messages(&text);
        let end = format!(
            "warning {path}: uses the deprecated plugin precise-prefix-cache-scorer: it is read as precise-prefix-cache-producer with \
             prefix-cache-scorer"
        );
        assert!(found.len() == 1 && found[0].ends_with(&end), "{end}: {found:#?}");
    }
}

#[test]
fn a_configuration_of_a_layer_is_judged_at_its_line_there() {
    let config = with_picker(&PICKER.replacen("queue-scorer", "queue-scorerr", 1))
        .replace("kind: LLMInferenceService\n", "kind: LLMInferenceServiceConfig\n")
        .replace("name: one", "name: base")
        .replace("  model:\n    uri: hf://org/model\n", "  replicas: 1\n");
    let service = service("  baseRefs: [{name: base}]\n");
    assert_eq!(
        finding_lines(&format!("{config}---\n{service}")),
        ["13:13 error spec.router.scheduler.config.inline.plugins[0].type PickerConfigRefused"]
    );
}

#[test]
fn a_section_of_a_picker_without_its_feature_gate_is_warned_about() {
    let flow = |gates: &str| {
        let config = PICKER.replacen("v1alpha1", "v1", 1) + gates + "flowControl:\n  maxBytes: 1Gi\n";
        finding_messages(&with_picker(&config))
    };
    let found = flow("");
    let [line] = found.as_slice() else { panic!("{found:#?}") };
    assert!(line.contains("warning spec.router.scheduler.config.inline.flowControl: no effect"), "{line}");
    assert!(line.contains("featureGates"), "{line}");
    assert_eq!(flow("featureGates: [flowControl]\n"), Vec::<String>::new());
}

#[test]
fn parameters_that_the_controller_leaves_out_are_warned_about() {
    let with = |parameters: &str| {
        let scorer =
            format!("- type: prefix-cache-scorer\n  parameters: {parameters}\n- type: max-score-picker");
        finding_lines(&with_picker(&PICKER.replacen("- type: max-score-picker", &scorer, 1)))
    };
    let at = "warning spec.router.scheduler.config.inline.plugins[1].parameters";
    let why = "PickerConfigWithoutEffect";
    let producer = "as a parameter of a plugin of the type `approx-prefix-cache-producer`";
    assert_eq!(
        with("{hashBlockSize: 5, lruCapacityPerServer: 9, hashBlokSize: 5, other: 1}"),
        [
            format!("16:26 {at}.hashBlockSize {why} (write `blockSizeTokens` {producer})"),
            format!("16:44 {at}.lruCapacityPerServer {why} (write `lruCapacityPerServer` {producer})"),
            format!("16:69 {at}.hashBlokSize {why} (write `blockSizeTokens` {producer})"),
            format!("16:86 {at}.other {why} (remove it)"),
        ]
    );
    assert_eq!(with("{}"), [""; 0]);
}

#[test]
fn a_config_map_that_has_no_picker_configuration_is_blamed_itself() {
    let service = service("  router: {scheduler: {config: {ref: {name: pick, key: epp}}}}\n");
    for text in ["plugins: [", "only words"] {
        let map = format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: pick}}\ndata:\n  epp: |\n    {text}\n"
        );
        let report = report(&format!("{service}{map}"));
        assert!(report.checked.iter().all(|(_, is_sound)| !is_sound), "{:?}", report.checked);
        let found = report.findings;
        let finding_lines: Vec<String> =
            found.iter().map(|finding| format!("{} {}", finding.path, finding.message)).collect();
        assert_eq!(finding_lines.len(), 1, "{finding_lines:#?}");
        assert!(
            finding_lines[0].starts_with("data.epp the picker will not start: ")
                && finding_lines[0].contains("the endpoint picker configuration: "),
            "{finding_lines:#?}"
        );
        assert!(found[0].line >= Some(12), "{:?}", found[0]);
        assert_eq!(found[0].object.as_ref().map(|object| &*object.kind), Some("ConfigMap"));
    }
}

#[test]
fn arguments_that_our_programs_refuse_are_errors_at_the_argument() {
    let service = |args: &str| {
        format!(
            "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {{name: one}}\nspec:\n  model: {{uri: 'hf://a/b'}}\n{args}"
        )
    };
    let picker = |args: &str| {
        service(&format!(
            "  router:\n    gateway: {{}}\n    route: {{}}\n    scheduler:\n      template:\n        containers:\n        - name: main\n          args: {args}\n"
        ))
    };
    let sidecar = |args: &str| {
        service(&format!(
            "  router: {{gateway: {{}}, route: {{}}, scheduler: {{}}}}\n  prefill: {{replicas: 1}}\n  template:\n    initContainers:\n    - name: llm-d-routing-sidecar\n      args: {args}\n"
        ))
    };
    let finding_lines = |text: &str| -> Vec<String> {
        let show = |finding: &Finding| {
            format!("{} {} {}: {}", finding.line.unwrap(), finding.reason, finding.path, finding.message)
        };
        // The engines beside the sidecar are no topic of this test.
        let findings = report(text).findings;
        findings.iter().filter(|finding| finding.reason != "KVTransferMissing").map(show).collect()
    };
    let at_picker = "13 ArgumentRefused spec.router.scheduler.template.containers[0].args";
    let at_sidecar = "11 ArgumentRefused spec.template.initContainers[0].args";
    let refuses = |role: &str, why: &str| format!("the {role} will not start: {why}");
    let (picker_main, sidecar_name) =
        ("picker in container main", "sidecar in container llm-d-routing-sidecar");
    for (text, place, message) in [
        (
            picker("['-v=4', '--poolname=x']"),
            format!("{at_picker}[1]"),
            refuses(
                picker_main,
                "unexpected argument '--poolname' found; a similar argument exists: '--pool-name'",
            ),
        ),
        (
            picker("[--max-request-bytes-in-flight, '1']"),
            format!("{at_picker}[1]"),
            refuses(
                picker_main,
                "--max-request-bytes-in-flight: must not be less than --max-request-body-size",
            ),
        ),
        (
            sidecar("['--connector=lmcache']"),
            format!("{at_sidecar}[0]"),
            refuses(
                sidecar_name,
                "--kv-connector: unknown connector `lmcache`; expected nixlv2, shared-storage, sglang, mooncake or offloading",
            ),
        ),
        (
            sidecar("['--vllm-prot=1']"),
            format!("{at_sidecar}[0]"),
            refuses(
                sidecar_name,
                "unexpected argument '--vllm-prot' found; a similar argument exists: '--vllm-port'",
            ),
        ),
    ] {
        assert_eq!(finding_lines(&text), [format!("{place}: {message}")], "{text}");
    }
    // A program in another image may know more, and a pod may know what its variables are.
    for text in [
        picker("['--poolname=x']\n          image: example.com/picker:1"),
        picker("['--grpc-port=$(PORT)']\n          env: [{name: PORT, value: '9002'}]"),
        picker("['--write-trace=/traces']"),
        sidecar("['--connector=mooncake', '']"),
    ] {
        assert_eq!(finding_lines(&text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn a_picker_of_a_pool_that_nobody_writes_is_warned_about() {
    let service = |args: &str| {
        format!(
            "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {{name: one}}\nspec:\n  \
             model: {{uri: 'hf://a/b'}}\n  router:\n    gateway: {{}}\n    route: {{}}\n    scheduler:\n      template:\n        \
             containers:\n        - name: main\n          args: {args}\n"
        )
    };
    let finding_lines = |text: &str| -> Vec<String> {
        report(text).findings.iter().map(|one| format!("{} {}", one.path, one.message)).collect()
    };
    let warning = "makes the picker wait for the InferencePool gaie, and the pool of this service is one-inference-pool: if there is \
                   no such pool, the picker is never ready";
    let at = "spec.router.scheduler.template.containers[0].args";
    assert_eq!(finding_lines(&service("[--pool-name, gaie]")), [format!("{at}[1] {warning}")]);
    assert_eq!(finding_lines(&service("['--v=4', '--pool-name=gaie']")), [format!("{at}[1] {warning}")]);
    assert_eq!(finding_lines(&service("['--pool-name=one-inference-pool']")), [""; 0]);
    let pool = "---\napiVersion: inference.networking.k8s.io/v1\nkind: InferencePool\nmetadata: {name: gaie}\nspec:\n  \
                selector: {matchLabels: {a: b}}\n  targetPorts: [{number: 8000}]\n  \
                endpointPickerRef: {name: p, port: {number: 9002}}\n";
    assert_eq!(finding_lines(&format!("{}{pool}", service("['--pool-name=gaie']"))), [""; 0]);
}
