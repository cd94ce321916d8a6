//! Prefill and decode between which no KV cache moves, and events about KV caches that nobody publishes.

use k8s_openapi::api::core::v1::Container;
use longboat_api::{
    picker_plugins::{PRECISE_PRODUCER, PRECISE_SCORER},
    v1alpha2::LLMInferenceServiceSpec,
};
use longboat_plan::kv_connector::{connectors, words};

use crate::{
    finding::Advice,
    pods::{is_simulator, is_vllm, main_containers},
};

/// Finds a vLLM for prefill or decode that has no connector for KV caches.
pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Option<Advice> {
    // Without a picker nothing is prefilled, which other advice says.
    spec.prefill.as_ref().and(spec.scheduler())?;
    let mut engines = main_containers(spec).filter(|(_, container)| is_known_vllm(container));
    let (path, _) = engines.find(|(_, container)| connectors(container).is_empty())?;
    let half = if path.starts_with("spec.prefill") { "prefill" } else { "decode" };
    Some(Advice::warning(
        "spec.prefill",
        "KVTransferMissing",
        format!(
            "vLLM for {half} has no connector for KV caches, so none moves from prefill to decode, and every prompt is computed twice"
        ),
        "give prefill and decode --kv-transfer-config '{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_both\"}' in \
         VLLM_ADDITIONAL_ARGS",
    ))
}

/// Finds a plugin of the picker that waits for events of KV caches, where no engine publishes them.
pub(super) fn without_events(spec: &LLMInferenceServiceSpec) -> Option<Advice> {
    let config = spec.scheduler()?.config.as_ref()?.inline.as_ref()?;
    let mut plugins = config["plugins"].as_array()?.iter();
    // Speculative entries stand for events.
    let at = plugins.position(|plugin| {
        [PRECISE_PRODUCER, PRECISE_SCORER].iter().any(|name| plugin["type"] == *name)
            && plugin["parameters"]["speculativeIndexing"] != true
    })?;
    let is_silent = |main: &Container| {
        let words = words(main);
        let others = ["kv-events", "kv_events", "--config"];
        is_known_vllm(main) && !is_simulator(main) && !others.iter().any(|part| words.contains(part))
    };
    main_containers(spec).all(|(_, main)| is_silent(main)).then(|| {
        Advice::warning(
            format!("spec.router.scheduler.config.inline.plugins[{at}]"),
            "KVEventsMissing",
            "waits for events of KV caches, and no vLLM of this service publishes them: it knows of no cached prefix",
            "give vLLM --kv-events-config in VLLM_ADDITIONAL_ARGS, or use the plugin approx-prefix-cache-producer",
        )
    })
}

/// Whether a container runs vLLM, and no value of its arguments comes from elsewhere.
fn is_known_vllm(container: &Container) -> bool {
    is_vllm(container)
        && container
            .env
            .iter()
            .flatten()
            .all(|variable| variable.value_from.is_none() || !variable.name.starts_with("VLLM_"))
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, noted, service};

    #[test]
    fn a_picker_without_events_of_kv_caches_is_warned_about() {
        let with = |plugin: &str, arguments: &str| {
            let config = format!(
                "{{apiVersion: llm-d.ai/v1, kind: EndpointPickerConfig, plugins: [{{type: queue-scorer}}, {plugin}], schedulingProfiles: \
                 [{{name: default, plugins: [{{pluginRef: queue-scorer}}]}}]}}"
            );
            let lines = format!(
                "  model: {{uri: 'hf://a/b'}}\n  router: {{gateway: {{}}, route: {{}}, scheduler: {{config: {{inline: {config}}}}}}}\n  \
                 template: {{containers: [{{name: main, args: [{arguments}]}}]}}\n"
            );
            noted(&service("a", &lines), "KVEventsMissing")
        };
        let start =
            "KVEventsMissing: spec.router.scheduler.config.inline.plugins[1] waits for events of KV caches";
        for plugin in ["{type: precise-prefix-cache-producer}", "{type: precise-prefix-cache-scorer}"] {
            let found = with(plugin, "");
            assert!(found.len() == 1 && found[0].starts_with(start), "{plugin}: {found:#?}");
        }
        for (plugin, arguments) in [
            ("{type: precise-prefix-cache-producer}", "--kv-events-config.enable_kv_cache_events=true"),
            ("{type: precise-prefix-cache-producer, parameters: {speculativeIndexing: true}}", ""),
            ("{type: approx-prefix-cache-producer}", ""),
        ] {
            assert_eq!(with(plugin, arguments), [""; 0], "{plugin} {arguments}");
        }
    }

    #[test]
    fn a_half_without_a_connector_is_named() {
        let connector = |name: &str| {
            format!(
                "template: {{containers: [{{name: main, env: [{{name: VLLM_ADDITIONAL_ARGS, value: \"--kv-transfer-config '{{\\\"kv_connector\\\":\\\"{name}\\\",\\\"kv_role\\\":\\\"kv_both\\\"}}'\"}}]}}]}}"
            )
        };
        let with = |decode: &str, prefill: &str| {
            let lines = format!(
                "  model: {{uri: 'hf://a/b'}}\n  router: {{gateway: {{}}, route: {{}}, scheduler: {{}}}}\n  {decode}\n  prefill:\n    replicas: 1\n    {prefill}\n"
            );
            finding_lines(&service("a", &lines))
        };
        let nixl = connector("NixlConnector");
        assert_eq!(with(&nixl, &nixl), [""; 0]);
        for (decode, prefill, half) in [
            ("", "", "decode"),
            (&*nixl, "", "prefill"),
            (&*nixl, &*connector("OffloadingConnector"), "prefill"),
        ] {
            let found = with(decode, prefill);
            let [one] = found.as_slice() else { panic!("{found:?}") };
            assert!(
                one.contains(&format!("warning spec.prefill: vLLM for {half} has no connector")),
                "{one}"
            );
        }
        // Another server has connectors of its own.
        let other = "template: {containers: [{name: main, command: [my-server]}]}";
        assert_eq!(with(other, other), [""; 0]);
    }
}
