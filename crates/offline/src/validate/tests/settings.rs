//! The settings, runtimes and templates that a service names.

use super::{Settings, Source, finding_lines, finding_messages, parse_all, report, service, validate};

#[test]
fn a_config_that_is_not_there_is_a_warning_and_one_that_breaks_a_service_an_error() {
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base}\nspec:\n  replicas: 3\n";
    let missing = service("  baseRefs: [{name: bas}]\n") + config;
    assert_eq!(
        finding_lines(&missing),
        ["7:15 warning spec.baseRefs[0].name ConfigNotFound (did you mean `base`?)"]
    );
    assert!(report(&missing).is_clean());
    let scaled =
        service("  baseRefs: [{name: base}]\n  scaling: {maxReplicas: 3, wva: {hpa: {}}}\n") + config;
    let found = report(&scaled);
    assert!(!found.is_clean());
    assert!(
        found.findings.iter().any(|finding| finding.source == Source::Compose
            && finding.reason == "InvalidRenderedConfig"
            && finding.message.contains("default/base")),
        "{:#?}",
        found.findings
    );
}

#[test]
fn a_config_of_another_namespace_is_told_where_it_must_be() {
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base, namespace: other}\nspec: {replicas: 3}\n";
    let text = service("  baseRefs: [{name: base}]\n") + config;
    assert_eq!(
        finding_messages(&text),
        [
            "7 warning spec.baseRefs[0].name: LLMInferenceServiceConfig \"base\" is in namespace other: it must be in one of the \
             namespaces [default kserve]"
        ]
    );
}

#[test]
fn double_quotes_in_a_template_are_blamed_at_the_config_and_at_the_service_that_uses_it() {
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base}\nspec:\n  labels:\n    a: ok\n    b: '{{ ChildName .ObjectMeta.Name \"-x\" }}'\n";
    let text = service("  baseRefs: [{name: base}]\n") + config;
    assert_eq!(
        finding_lines(&text),
        [
            "7:15 error spec.baseRefs[0].name ConfigRefused (mend the config first: the fields of this service are checked only \
             together with it)",
            "15:5 error spec.labels.b Forbidden (write backquotes (`) in place of double quotes: the template is rendered in JSON, \
             where a double quote has a backslash before it)",
        ]
    );
    assert!(report(&text).checked.iter().all(|(_, is_sound)| !is_sound));
}

#[test]
fn a_gateway_without_a_name_is_named_where_it_is_written() {
    let router = "  router: {route: {}, gateway: {refs: [{namespace: x}]}}\n";
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base}\nspec:\n";
    let message = "error spec.router.gateway.refs[0].name: Required value: the name of a Gateway";
    assert_eq!(finding_messages(&service(router)), [format!("7 {message}")]);
    let text = service("  baseRefs: [{name: base}]\n") + config + router;
    assert_eq!(finding_messages(&text), [format!("13 {message}")]);
}

#[test]
fn a_template_that_does_not_parse_is_an_error() {
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base}\nspec:\n  template:\n    containers:\n    - name: main\n      image: '{{ .Spec'\n";
    let found = report(&(service("  baseRefs: [{name: base}]\n") + config));
    assert!(!found.is_clean(), "{:#?}", found.findings);
    assert!(found.findings[1].message.contains("template"), "{:#?}", found.findings);
}

#[test]
fn the_field_whose_template_fails_is_pointed_at() {
    let config = |image: &str| {
        format!(
            "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {{name: base}}\nspec:\n  template:\n    containers:\n    - name: main\n      args: ['{{{{ .Spec.Model.Name }}}}']\n      image: '{image}'\n"
        )
    };
    for image in ["{{ .Spec", "{{ .Spec.Nothing }}", "{{ and }}"] {
        let found = report(&config(image));
        let finding = &found.findings[0];
        assert_eq!(
            (finding.path.as_str(), finding.line),
            ("spec.template.containers[0].image", Some(9)),
            "{finding:#?}"
        );
    }
}

#[test]
fn a_runtime_that_is_not_there_is_told_the_one_that_is_meant() {
    let hint = |runtime: &str| {
        let found = report(&service(&format!("  runtime: {runtime}\n"))).findings;
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((finding.line, &*finding.path), (Some(7), "spec.runtime"));
        finding.hint.clone().unwrap_or_default()
    };
    assert_eq!(hint("sglang"), "did you mean `kserve-llm-sglang`?");
    assert_eq!(hint("kserve-sglang"), "did you mean `kserve-llm-sglang`?");
    assert_eq!(hint("llm"), "it is not in these files, so it must exist on the cluster");
    assert_eq!(hint("kserve-llm-sgalng"), "did you mean `kserve-llm-sglang`?");
    assert_eq!(hint("vllm"), "remove spec.runtime: without it, the presets serve with vLLM");
    assert_eq!(hint("ours"), "it is not in these files, so it must exist on the cluster");
}

#[test]
fn settings_that_cannot_be_used_are_blamed_themselves() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: inferenceservice-config, namespace: kserve}\ndata:\n  storageInitializer: '{}'\n  ingress: 'x'\n";
    let platform = longboat_manifest::parse("p.yaml", text).unwrap().into_iter().next();
    let found =
        validate(parse_all("f.yaml", &service("")), &Settings { platform, ..Settings::default() }).findings;
    let places: Vec<_> = found.iter().map(|finding| (&*finding.file, finding.line, &*finding.path)).collect();
    assert_eq!(places, [("p.yaml", Some(6), "data.ingress")]);
}

#[test]
fn a_template_that_fails_is_named_where_it_is_written() {
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base}\nspec:\n  labels: {a: '{{ .Spec.Template.Containers.x }}'}\n";
    let found = finding_messages(&(service("  baseRefs: [{name: base}]\n") + config));
    assert!(found.iter().any(|line| line.starts_with("13 error spec.labels.a: ")), "{found:#?}");
    let own = finding_messages(&service("  labels:\n    a: '{{ .x }}'\n"));
    assert!(
        own.len() == 1 && own[0].starts_with("8 error spec.labels.a: failed to merge config"),
        "{own:#?}"
    );
}
