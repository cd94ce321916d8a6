//! Prefill and decode between which no KV cache moves.

use k8s_openapi::api::core::v1::Container;
use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_plan::kv_connector::connectors;

use crate::{
    finding::Advice,
    pods::{is_vllm, main_containers},
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

/// Whether a container runs vLLM, and no value of its arguments comes from elsewhere.
pub(super) fn is_known_vllm(container: &Container) -> bool {
    is_vllm(container)
        && container
            .env
            .iter()
            .flatten()
            .all(|variable| variable.value_from.is_none() || !variable.name.starts_with("VLLM_"))
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

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
