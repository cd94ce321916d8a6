//! A name of the model that the service's tokenizer does not serve.

use longboat_api::{picker_plugins::TOKEN_PRODUCER, v1alpha2::LLMInferenceService};
use longboat_compose::Effective;
use longboat_key::Name;
use longboat_plan::{Plan, Snapshot, names};
use serde_json::Value;

use super::picker_config::{WrittenConfig, parse, planned};
use crate::{
    finding::Advice,
    pods::{MAIN, split_words},
};

/// Finds a `modelName` for which the tokenizer of the service answers 404.
pub(super) fn check(
    snapshot: &Snapshot,
    service: &LLMInferenceService,
    effective: &Effective,
    plan: &Plan,
) -> Option<Advice> {
    let tokenizer = names::tokenizer(Name::of(&service.metadata));
    let pod = plan.children.deployment(&tokenizer)?.spec.as_ref()?.template.spec.as_ref()?;
    let main = pod.containers.iter().find(|container| container.name == MAIN)?;
    // The names that it serves are words of its command, and one of a variable is not known.
    let served = |name: &str| {
        split_words("", main).any(|(_, word)| {
            let word = word.trim_matches(['"', '\'']);
            word == name || word.rsplit('=').next() == Some(name) || word.contains("served-model-name=$")
        })
    };
    let written = WrittenConfig::of(snapshot, service, effective, Some(plan))?;
    let (at, plugin) = written.plugins(&[TOKEN_PRODUCER]).next()?;
    let name = plugin["parameters"]["modelName"].as_str().filter(|name| !name.is_empty() && !served(name))?;
    let config = parse(&planned(snapshot, service, plan)?.text)?;
    let asks = |plugin: &Value| {
        let url = plugin["parameters"]["vllm"]["url"].as_str().unwrap_or_default();
        plugin["type"] == TOKEN_PRODUCER && url.contains(&format!("://{tokenizer}."))
    };
    config["plugins"].as_array()?.iter().any(asks).then(|| {
        Advice::warning(
            written.path(&format!("plugins[{at}].parameters.modelName")),
            "TokenizerModel",
            format!(
                "gives {} the model {name}, and the tokenizer of this service does not serve it by this name: it answers 404, and the \
                 picker knows no tokens of prompts",
                written.name_of(plugin)
            ),
            "remove modelName: the controller writes the name that the tokenizer serves",
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

    #[test]
    fn a_model_that_the_tokenizer_does_not_serve_is_warned_about() {
        let with = |parameters: &str, tokenizer: &str| {
            let lines = format!(
                "  model: {{uri: 'hf://a/b', name: a/b}}
  router:
    gateway: {{}}
    route: {{}}
    scheduler:
      {tokenizer}
      config:
        inline:
          apiVersion: llm-d.ai/v1alpha1
          kind: EndpointPickerConfig
          plugins:
          - {{type: token-producer, parameters: {parameters}}}
          - {{type: queue-scorer}}
          schedulingProfiles: [{{name: default, plugins: [{{pluginRef: queue-scorer}}]}}]
"
            );
            finding_lines(&service("s", &lines))
        };
        let found = with("{modelName: a/b}", "");
        let path = "16:49 warning spec.router.scheduler.config.inline.plugins[0].parameters.modelName";
        let start = format!(
            "{path}: gives token-producer the model a/b, and the tokenizer of this service does not serve it"
        );
        assert!(found.len() == 1 && found[0].starts_with(&start), "{found:#?}");
        let serving = "tokenizer: {template: {containers: [{name: main, command: [vllm, launch, render, /mnt/models/base, \
                       --served-model-name, a/b]}]}}";
        for (parameters, tokenizer) in [
            ("{}", ""),
            ("{modelName: /mnt/models/base}", ""),
            ("{modelName: a/b, vllm: {url: 'http://mine:8000'}}", ""),
            ("{modelName: a/b}", serving),
        ] {
            assert_eq!(with(parameters, tokenizer), [""; 0], "{parameters} {tokenizer}");
        }
        let found = with("{estimate: {}}", "");
        let hint = "(remove the plugin token-producer: the controller gives each one a tokenizer, and without it tokens are estimated)";
        assert!(found.len() == 1 && found[0].contains(" error ") && found[0].ends_with(hint), "{found:#?}");
    }
}
