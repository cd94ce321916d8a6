//! Configs that no service uses.

use super::{finding_lines, report};

/// Returns a config with these lines in its spec. The first one is line 5.
fn config(lines: &str) -> String {
    format!(
        "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {{name: base}}\nspec:\n{lines}"
    )
}

#[test]
fn a_config_that_nothing_uses_is_checked_with_a_service_of_its_own() {
    let arguments =
        config("  template:\n    containers:\n    - name: main\n      args: [--max-model-len, many]\n");
    assert_eq!(
        finding_lines(&arguments),
        [
            "8:14 warning spec.template.containers[0].args[0] FlagValue (correct the value, or remove the flag)"
        ]
    );
    let picker = config(
        "  router:\n    scheduler:\n      config:\n        inline:\n          apiVersion: llm-d.ai/v1alpha1\n          kind: \
         EndpointPickerConfig\n          plugins:\n          - type: queue-scorrer\n",
    );
    assert_eq!(
        finding_lines(&picker),
        ["12:13 warning spec.router.scheduler.config.inline.plugins[0].type PickerConfigRefused"]
    );
    assert!(report(&picker).is_clean());
}

#[test]
fn nothing_is_said_about_what_a_config_leaves_to_services() {
    for lines in [
        "  replicas: 2\n",
        "  model: {uri: '', name: a}\n",
        "  prefill:\n    replicas: 1\n",
        "  worker:\n    containers:\n    - name: main\n",
        "  parallelism: {tensor: 8}\n",
        "  router:\n    scheduler: {}\n",
        "  router:\n    route:\n      http:\n        refs: [{name: theirs}]\n",
        "  template:\n    containers:\n    - name: main\n      image: vllm/vllm-openai:v1\n      env:\n      - name: TEAM\n        value: \
         '{{ index .ObjectMeta.Annotations `team` }}'\n",
    ] {
        assert_eq!(finding_lines(&config(lines)), [""; 0], "{lines}");
    }
}
