//! Models, and what an engine can serve.

use super::{Finding, finding_lines, report, service};

#[test]
fn a_name_of_the_model_that_no_path_can_have_is_told_what_it_may_have() {
    let text = service("    name: 'é'\n  router: {gateway: {}, route: {}, scheduler: {}}\n");
    assert_eq!(
        finding_lines(&text),
        [
            "7:5 error spec.model.name InvalidRenderedConfig (the route has the name in its paths: use letters, digits and any of -._~)"
        ]
    );
}

#[test]
fn a_model_that_nobody_can_fetch_is_an_error() {
    assert_eq!(
        finding_lines(&service("").replace("hf://org/model", "ftp://host/model")),
        [
            "6:5 error spec.model.uri ReconcileSingleNodeWorkloadError (models are downloaded from hf://, s3://, gs://, http(s)://, pvc://, oci:// or file://)"
        ]
    );
    assert_eq!(
        finding_lines(&service("").replace("hf://org/model", "\"\"")),
        [
            "6:5 error spec.model.uri ReconcileSingleNodeWorkloadError (set the address of the model: hf://, s3://, gs://, http(s)://, pvc://, oci:// or file://)"
        ]
    );
    // A config may set the model.
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base}\nspec:\n  model: {uri: 'hf://a/b'}\n";
    let text = service("  baseRefs: [{name: base}]\n").replace("hf://org/model", "\"\"") + config;
    assert!(report(&text).is_clean(), "{:#?}", report(&text).findings);
}

#[test]
fn adapters_that_would_share_a_folder_are_told_apart_or_refused() {
    let adapters = |names: &[&str]| {
        let lines: String = names
            .iter()
            .map(|name| format!("      - {{name: '{name}', uri: 'hf://org/x'}}\n"))
            .collect::<Vec<_>>()
            .concat();
        format!("    lora:\n      adapters:\n{lines}")
    };
    assert_eq!(finding_lines(&service(&adapters(&["a/b", "a-b"]))), Vec::<String>::new());
    // The folder of "a/b" beside "a-b".
    let path = longboat_api::lora_paths::mount_paths(&["a/b", "a-b"]).unwrap().remove(0);
    let literal = path.strip_prefix("/mnt/lora/").unwrap();
    let found = finding_lines(&service(&adapters(&["a/b", "a-b", literal])));
    assert_eq!(found, ["8:7 error spec.model.lora.adapters FieldValueInvalid"]);
    // A config is merged before anybody knows which adapters the service has.
    let config = format!(
        "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {{name: named}}\nspec:\n  model:\n    uri: hf://org/model\n{}",
        adapters(&["a/b", "a-b", literal])
    );
    let found = finding_lines(&(service("  baseRefs: [{name: named}]\n") + &config));
    assert!(
        found.iter().any(|line| line.ends_with("error spec.model.lora LoRAMountPathCollision")),
        "{found:#?}"
    );
}

#[test]
fn what_an_engine_cannot_have_is_named_in_the_layer_that_has_it() {
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: offload}\nspec:\n  kvCacheOffloading: {cpu: 1Gi}\n";
    let text = service("  runtime: kserve-llm-sglang\n  baseRefs: [{name: offload}]\n") + config;
    let found = report(&text).findings;
    let [finding] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!((finding.line, finding.path.as_str()), (Some(14), "spec.kvCacheOffloading"));
    assert!(finding.message.starts_with("not possible with SGLang"), "{finding:#?}");
    let hint = finding.hint.as_deref();
    assert_eq!(hint, Some("the field comes from LLMInferenceServiceConfig default/offload"));
}

#[test]
fn what_a_cluster_accepts_and_cannot_serve_is_named_at_its_field() {
    const ROUTER: &str = "  router: {gateway: {}, route: {}, scheduler: {}}\n";
    const POOL: &str = " (a pool of your own needs all of its fields: remove `pool.spec` to have the pool of the preset, or set \
        `selector`, `targetPorts` and `endpointPickerRef`)";
    let at = |address: &str| service(ROUTER).replace("hf://org/model", address);
    let adapters = |adapters: &str| {
        service(ROUTER)
            .replace("hf://org/model\n", &format!("hf://org/model\n    lora:\n      adapters:\n{adapters}"))
    };
    let mounted = "  template:\n    containers:\n    - name: main\n      volumeMounts: [{name: own, mountPath: /mnt/models/}]\n    volumes: [{name: own, emptyDir: {}}]\n";
    let picker = "  router:\n    gateway: {}\n    route: {}\n    scheduler:\n      config: {ref: {name: own}}\n      template: {containers: [{name: main, args: ['--config-file=/x']}]}\n";
    for (text, expected) in [
        (at("https://a.blob.core.windows.net/models/m"), vec!["6:5 error spec.model.uri ModelAddress"]),
        (at("https://host/org/model.git"), vec!["6:5 error spec.model.uri ModelAddress"]),
        (at("pvc://claim/../other"), vec!["6:5 error spec.model.uri ModelAddress"]),
        (at("http://"), vec!["6:5 error spec.model.uri ModelAddress"]),
        (
            at("https://huggingface.co/org/model/blob/main/model.safetensors"),
            vec!["6:5 error spec.model.uri ModelAddress (did you mean `hf://org/model`?)"],
        ),
        (
            at("oci://https://quay.io/a/b:v1"),
            vec!["6:5 error spec.model.uri ModelAddress (did you mean `oci://quay.io/a/b:v1`?)"],
        ),
        (
            at("oci://quay.io/${QUAY_USER}/qwen:1"),
            vec![
                "6:5 error spec.model.uri ModelAddress (`${QUAY_USER}` is not replaced here: run `envsubst` first, or write the \
                 value)",
            ],
        ),
        (
            at("oci+native://quay.io/a/b@sha256:abc"),
            vec![
                "6:5 error spec.model.uri ModelAddress (write it as oci://REGISTRY/REPOSITORY:TAG or \
                 oci://REGISTRY/REPOSITORY@sha256:DIGEST)",
            ],
        ),
        (
            adapters(
                "      - {name: a, uri: 'hf://org/a', rank: 8}\n      - {name: b, uri: 'hf://org/b', confidental: {}}\n",
            ),
            vec![
                "9:38 warning spec.model.lora.adapters[0].rank UnknownField",
                "10:38 warning spec.model.lora.adapters[1].confidental UnknownField (did you mean `confidential`?)",
            ],
        ),
        (
            adapters("      - {name: a, uri: 'hf://org/a'}\n      - {name: b, uri: 'ftp://host/b'}\n"),
            vec!["10:19 error spec.model.lora.adapters[1].uri CombineBaseError"],
        ),
        (
            service(&(ROUTER.to_owned() + mounted)),
            vec![
                "11:34 error spec.template.containers[0].volumeMounts[0].mountPath ModelMountedTwice (remove the volume mount own, \
                 or bring the model yourself with spec.storageInitializer.enabled: false)",
            ],
        ),
        // The volume that the controller would mount there: it leaves what the template has.
        (service(&(ROUTER.to_owned() + &mounted.replace("own", "kserve-provision-location"))), vec![]),
        (
            service(&(ROUTER.to_owned() + &mounted.replace("own", "kserve-pvc-source")))
                .replace("hf://org/model", "pvc://claim/model"),
            vec![],
        ),
        (
            service(&(ROUTER.to_owned() + &mounted.replace("models/", "lora/"))).replace(
                "hf://org/model\n",
                "hf://org/model\n    lora: {adapters: [{name: a, uri: 'hf://o/a'}, {name: c, uri: 'pvc://c/c'}]}\n",
            ),
            vec![
                "4:1 note spec NotInTheseFiles (they must exist on the cluster)",
                "12:34 warning spec.template.containers[0].volumeMounts[0].mountPath AdapterHidden (mount the volume own elsewhere, \
                 or name a pvc:// address for each adapter that it has)",
            ],
        ),
        (
            service("  router: {gateway: {}, route: {}}\n  prefill: {replicas: 1}\n"),
            vec![
                "8:3 warning spec.prefill PrefillWithoutPicker (set `spec.router.scheduler: {}`, or remove spec.prefill)",
            ],
        ),
        (
            service(&(ROUTER.to_owned() + "  kvCacheOffloading: {cpu: 100m}\n")),
            vec!["8:23 error spec.kvCacheOffloading.cpu FieldValueInvalid"],
        ),
    ] {
        assert_eq!(finding_lines(&text), expected, "{text}");
    }
    let pool = finding_lines(&service(
        "  router:\n    route: {}\n    scheduler:\n      pool: {spec: {targetPorts: [{number: 1}]}}\n",
    ));
    let wanting = ["endpointPickerRef", "selector"];
    assert_eq!(
        pool,
        wanting.map(|field| {
            format!("10:14 error spec.router.scheduler.pool.spec.{field} FieldValueRequired{POOL}")
        })
    );
    let warnings = finding_lines(&service(picker));
    let twice = "12:44 warning spec.router.scheduler.template.containers[0].args Warning";
    assert!(warnings.iter().any(|line| line == twice), "{warnings:#?}");
}

#[test]
fn services_that_serve_a_model_of_the_same_name_at_one_gateway_are_told_of_each_other() {
    let two = |first: &str, second: &str| {
        let of = |name: &str, router: &str| {
            service(&format!("    name: m\n  router: {{{router}}}\n"))
                .replace("{name: one}", &format!("{{name: {name}}}"))
        };
        let text = format!("{}---\n{}", of("one", first), of("two", second));
        report(&text).findings.iter().map(Finding::line).collect::<Vec<_>>()
    };
    let of = |line: u32, other: &str| {
        format!(
            "f.yaml:{line}:5: warning: spec.model.name: model \"m\" has the name of a model of LLMInferenceService default/{other} at the \
             same Gateway: requests that name only the model reach one of the two services"
        )
    };
    let both = [of(7, "two"), of(16, "one")];
    assert_eq!(two("gateway: {}, route: {}", "route: {}"), both);
    assert_eq!(two("route: {}", "scheduler: {}, route: {group: g, weight: 1}"), both);
    let group = "route: {group: g, weight: 1}";
    assert_eq!(two(group, group), [""; 0]);
    // Own routes with other matches, other hosts, or none.
    for other in [
        "",
        "route: {http: {spec: {hostnames: [a.example.com]}}}",
        "route: {http: {spec: {rules: [{matches: [{path: {value: /mine}}]}]}}}",
    ] {
        let first = "route: {http: {spec: {hostnames: [b.example.com]}}}";
        let found = two(first, other);
        assert!(found.iter().all(|line| !line.contains("same Gateway")), "{found:#?}");
    }
}
