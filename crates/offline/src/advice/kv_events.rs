//! Events of KV caches that the picker waits for, and that no engine publishes, or not as the picker reads them.

use longboat_api::{
    picker_plugins::{PRECISE_PRODUCER, PRECISE_SCORER},
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};
use longboat_compose::Effective;
use longboat_plan::{Plan, Snapshot};
use serde_json::Value;

use super::{
    engine_flags::kv_events::{self, Events, Publisher},
    picker_config::WrittenConfig,
    transfer::is_known_vllm,
};
use crate::{
    finding::Advice,
    pods::{is_simulator, main_containers},
};

/// The picker's defaults.
const PORT: u64 = 5557;
const TOPIC: &str = "kv@";
const BLOCK: i64 = 16;

const REASON: &str = "KVEventsMismatch";
const EFFECT: &str = "it knows of no cached prefix";

pub(super) fn check(
    snapshot: &Snapshot,
    service: &LLMInferenceService,
    effective: &Effective,
    plan: Option<&Plan>,
) -> Vec<Advice> {
    let spec = &effective.spec;
    let Some(config) = WrittenConfig::of(snapshot, service, effective, plan) else { return Vec::new() };
    let engines: Vec<Events> = main_containers(spec)
        .map(|(path, main)| {
            let is_read = is_known_vllm(main) && !is_simulator(main);
            if is_read { kv_events::of(&path, main) } else { Events::Unknown }
        })
        .collect();
    let mut all = Vec::new();
    let is_silent = engines.iter().all(|events| matches!(events, Events::Silent));
    for (at, plugin) in config.plugins(&[PRECISE_PRODUCER, PRECISE_SCORER]) {
        let name = config.name_of(plugin);
        // Speculative entries stand for events.
        if is_silent && plugin["parameters"]["speculativeIndexing"] != true && all.is_empty() {
            all.push(missing(config.path(&format!("plugins[{at}]")), (!config.is_inline).then_some(&name)));
        }
        let publishers = engines.iter().filter_map(|events| match events {
            Events::Published(publisher) => Some(publisher),
            Events::Unknown | Events::Silent => None,
        });
        for publisher in publishers {
            let waiting = Waiting { name: &name, parameters: &plugin["parameters"] };
            let found = [
                waiting.other_port(publisher),
                waiting.other_topic(publisher).or_else(|| other_model(publisher, spec)),
                waiting.other_blocks(publisher),
            ];
            for advice in found.into_iter().flatten() {
                if !all.contains(&advice) {
                    all.push(advice);
                }
            }
        }
    }
    all
}

fn missing(path: String, plugin: Option<&String>) -> Advice {
    // The path of an inline configuration names the plugin.
    let has = plugin.map(|name| format!("has {name}, which ")).unwrap_or_default();
    Advice::warning(
        path,
        "KVEventsMissing",
        format!("{has}waits for events of KV caches, and no vLLM of this service publishes them: {EFFECT}"),
        "give vLLM --kv-events-config in VLLM_ADDITIONAL_ARGS, or use the plugin approx-prefix-cache-producer",
    )
}

/// A plugin of the picker that waits for events.
struct Waiting<'a> {
    name: &'a str,
    parameters: &'a Value,
}

// === impl Waiting ===

impl Waiting<'_> {
    fn events(&self) -> &Value {
        &self.parameters["kvEventsConfig"]
    }

    fn other_port(&self, publisher: &Publisher) -> Option<Advice> {
        let discovery = &self.events()["podDiscoveryConfig"];
        // Without discovery, engines connect to the picker. With a selector, others may publish elsewhere.
        if self.events()["discoverPods"] == false || !discovery["podLabelSelector"].is_null() {
            return None;
        }
        let port = publisher.port()?;
        let expected = discovery["socketPort"].as_u64().unwrap_or(PORT);
        (u64::from(port) != expected).then(|| {
            Advice::warning(
                publisher.path.clone(),
                REASON,
                format!(
                    "makes vLLM publish events of KV caches on port {port}, and the picker's {} connects to port {expected}: {EFFECT}",
                    self.name
                ),
                format!(
                    "write port {expected} in `endpoint`, or `socketPort: {port}` in kvEventsConfig.podDiscoveryConfig of the picker"
                ),
            )
        })
    }

    fn other_topic(&self, publisher: &Publisher) -> Option<Advice> {
        let filter = self.events()["topicFilter"].as_str().unwrap_or(TOPIC);
        let (topic, is_whole) = &publisher.topic;
        let fits = topic.starts_with(filter) || !is_whole && filter.starts_with(topic.as_str());
        (!fits).then(|| {
            Advice::warning(
                publisher.path.clone(),
                REASON,
                format!(
                    "makes vLLM publish events of KV caches with the topic \"{topic}\", and the picker's {} reads topics that begin \
                     with \"{filter}\": {EFFECT}",
                    self.name
                ),
                "write `\"topic\": \"kv@$(POD_IP)@MODEL\"` with the name of the model, and `topicFilter: kv@` for the picker",
            )
        })
    }

    fn other_blocks(&self, publisher: &Publisher) -> Option<Advice> {
        let (path, size) = publisher.block.as_ref()?;
        let processors = [
            &self.parameters["tokenProcessorConfig"],
            &self.parameters["indexerConfig"]["tokenProcessorConfig"],
        ];
        let processor = processors.into_iter().find(|processor| !processor.is_null());
        let mut sizes = processor.into_iter().flat_map(|one| [&one["blockSizeTokens"], &one["blockSize"]]);
        let own = sizes.find_map(Value::as_i64).unwrap_or(BLOCK);
        if own <= 0 || size % own == 0 {
            return None;
        }
        let what = match path {
            Some(_) => format!("makes blocks of {size} tokens"),
            None => format!("leaves the size of blocks to vLLM, which for most models is {size} tokens"),
        };
        Some(Advice::warning(
            path.as_ref().unwrap_or(&publisher.path).clone(),
            REASON,
            format!(
                "{what}, and the picker's {} reads events of blocks with a multiple of {own} tokens only: {EFFECT}",
                self.name
            ),
            format!(
                "give vLLM `--block-size {own}`, or write the engine's size in `blockSizeTokens` of tokenProcessorConfig"
            ),
        ))
    }
}

/// A topic that names no model, or another one. The picker takes the name from there.
fn other_model(publisher: &Publisher, spec: &LLMInferenceServiceSpec) -> Option<Advice> {
    let (topic, is_whole) = &publisher.topic;
    let name = spec.model.name.as_deref().filter(|name| !name.is_empty() && *is_whole)?;
    let model = topic.splitn(3, '@').nth(2).unwrap_or_default();
    let is_served = model == name || publisher.names.iter().any(|served| served == model);
    (!is_served).then(|| {
        let what = if model.is_empty() { "no model".to_owned() } else { format!("the model {model}") };
        Advice::warning(
            publisher.path.clone(),
            REASON,
            format!(
                "makes vLLM publish events of KV caches with a topic that names {what}: the picker finds no cached prefix for \
                 requests for {name}"
            ),
            format!("write `\"topic\": \"kv@$(POD_IP)@{name}\"`"),
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, noted, service};

    /// A service whose vLLM has these arguments, and whose scheduler has these fields.
    fn with(arguments: &str, scheduler: &str) -> String {
        let lines = format!(
            "  model: {{uri: 'hf://a/b', name: m}}\n  router: {{gateway: {{}}, route: {{}}, scheduler: {{{scheduler}}}}}\n  template: \
             {{containers: [{{name: main, args: [{arguments}], env: [{{name: POD_IP, valueFrom: {{fieldRef: {{fieldPath: \
             status.podIP}}}}}}]}}]}}\n"
        );
        service("a", &lines)
    }

    fn config(plugin: &str) -> String {
        format!(
            "{{apiVersion: llm-d.ai/v1, kind: EndpointPickerConfig, plugins: [{{type: queue-scorer}}, {plugin}], schedulingProfiles: [{{name: \
             default, plugins: [{{pluginRef: queue-scorer}}]}}]}}"
        )
    }

    fn inline(plugin: &str) -> String {
        format!("config: {{inline: {}}}", config(plugin))
    }

    const PRODUCER: &str = "{type: precise-prefix-cache-producer}";

    #[test]
    fn a_picker_without_events_of_kv_caches_is_warned_about() {
        let noted =
            |arguments: &str, plugin: &str| noted(&with(arguments, &inline(plugin)), "KVEventsMissing");
        let start = "KVEventsMissing: spec.router.scheduler.config.inline.plugins[1] waits for events";
        for plugin in [PRODUCER, "{type: precise-prefix-cache-scorer}"] {
            for arguments in ["", "--kv-events-config.topic=kv@"] {
                let found = noted(arguments, plugin);
                assert!(found.len() == 1 && found[0].starts_with(start), "{plugin}: {found:#?}");
            }
        }
        for (plugin, arguments) in [
            (PRODUCER, "--kv-events-config.enable_kv_cache_events=true"),
            (PRODUCER, "--config=/file"),
            ("{type: precise-prefix-cache-producer, parameters: {speculativeIndexing: true}}", ""),
            ("{type: approx-prefix-cache-producer}", ""),
        ] {
            assert_eq!(noted(arguments, plugin), [""; 0], "{plugin} {arguments}");
        }
    }

    #[test]
    fn the_configuration_is_found_in_arguments_and_config_maps() {
        let warning = "which waits for events of KV caches, and no vLLM of this service publishes them";
        let map = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: pc}}\ndata:\n  epp: \"{}\"\n---\n",
            config(PRODUCER)
        );
        let scheduler = format!(
            "template: {{containers: [{{name: main, args: [--config-text, '{}']}}]}}",
            config(PRODUCER)
        );
        let file = "template: {containers: [{name: main, args: [--config-file=/c/epp], volumeMounts: [{name: c, mountPath: /c}]}], volumes: \
                    [{name: c, configMap: {name: pc}}]}";
        for (text, path, plugin) in [
            (with("", &scheduler), "template.containers[0].args[1]", "precise-prefix-cache-producer,"),
            (map.clone() + &with("", "config: {ref: {name: pc}}"), "config.ref", "in ConfigMap default/pc,"),
            (map.clone() + &with("", file), "template.containers[0].args[0]", "in ConfigMap default/pc,"),
        ] {
            let found = finding_lines(&text);
            let start = format!("warning spec.router.scheduler.{path}: has precise-prefix-cache-producer");
            let [one] = &found[..] else { panic!("{found:#?}") };
            assert!(one.contains(&start) && one.contains(&format!("{plugin} {warning}")), "{one}");
        }
    }

    #[test]
    fn events_that_the_picker_does_not_read_are_warned_about() {
        let picker = "{type: precise-prefix-cache-producer, parameters: {tokenProcessorConfig: {blockSize: 64}, kvEventsConfig: {topicFilter: \
                      kv@, podDiscoveryConfig: {socketPort: 5557}}}}";
        let noted = |flags: &str, endpoint: &str, topic: &str| {
            let json = format!(
                "{{\"enable_kv_cache_events\":true,\"publisher\":\"zmq\",\"endpoint\":\"{endpoint}\",\"topic\":\"{topic}\"}}"
            );
            let arguments = format!("'{flags}', --kv-events-config, '''{json}'''");
            noted(&with(&arguments, &inline(picker)), "KVEventsMismatch")
        };
        let bound = "tcp://*:5557";
        for (flags, endpoint, topic) in [
            ("--block-size=64", bound, "kv@$(POD_IP)@m"),
            ("--block-size=128", "tcp://a-epp-service:5556", "kv@x@m"),
            ("--block-size=64", bound, "$(TOPIC)"),
            ("--block-size=64", bound, "kv@$(POD_IP)@$(MODEL)"),
            ("--decode-context-parallel-size=4", bound, "kv@x@m"),
            ("--config=/file", "tcp://*:1", "x"),
        ] {
            assert_eq!(noted(flags, endpoint, topic), [""; 0], "{flags} {endpoint} {topic}");
        }
        let end = "it knows of no cached prefix";
        let name = "the picker's precise-prefix-cache-producer";
        for (flags, endpoint, topic, expected) in [
            (
                "--block-size=64",
                "tcp://*:5556",
                "kv@x@m",
                format!("publish events of KV caches on port 5556, and {name} connects to port 5557: {end}"),
            ),
            (
                "--block-size=64",
                bound,
                "kv-events",
                format!(
                    "with the topic \"kv-events\", and {name} reads topics that begin with \"kv@\": {end}"
                ),
            ),
            ("--block-size=64", bound, "kv@", "with a topic that names no model: the picker".to_owned()),
            (
                "--block-size=64",
                bound,
                "kv@$(POD_IP)",
                "with a topic that names no model: the picker".to_owned(),
            ),
            (
                "--block-size=64",
                bound,
                "kv@x@other",
                "with a topic that names the model other: the picker".to_owned(),
            ),
            (
                "--block-size=32",
                bound,
                "kv@x@m",
                format!(
                    "makes blocks of 32 tokens, and {name} reads events of blocks with a multiple of 64 tokens only: {end}"
                ),
            ),
            (
                "--enforce-eager",
                bound,
                "kv@x@m",
                format!(
                    "for most models is 16 tokens, and {name} reads events of blocks with a multiple of 64 tokens only: {end}"
                ),
            ),
        ] {
            let found = noted(flags, endpoint, topic);
            assert!(found.len() == 1 && found[0].contains(&expected), "{expected}: {found:#?}");
        }
    }
}
