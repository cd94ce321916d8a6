//! Probes that ask vLLM for a page that it does not have, or that needs a key.

use longboat_api::{engine::EngineKey, v1alpha2::LLMInferenceServiceSpec};

use crate::{
    finding::Advice,
    pods::{is_vllm, main_containers, probes},
};

/// Pages that answer 200 to a probe.
const PAGES: [&str; 9] =
    ["/docs", "/health", "/load", "/metrics", "/openapi.json", "/ping", "/redoc", "/v1/models", "/version"];

pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let mut all = Vec::new();
    for (path, main) in main_containers(spec).filter(|(_, main)| is_vllm(main)) {
        let has_key = EngineKey::of(main).is_some();
        for (field, probe) in probes(main) {
            let Some(asked) = probe.http_get.as_ref().and_then(|http| http.path.as_deref()) else { continue };
            let page = asked.split('?').next().unwrap_or_default();
            let place = format!("{path}.{field}.httpGet.path");
            // vLLM asks for its key below /v1 only.
            if has_key && page.starts_with("/v1") {
                let message = format!(
                    "is {asked}, for which vLLM needs its API key: it answers 401, and no pod becomes ready"
                );
                all.push(Advice::warning(
                    place,
                    "ProbeWithoutKey",
                    message,
                    "ask for `/health`, which needs no key",
                ));
            } else if !PAGES.contains(&format!("/{}", page.trim_start_matches('/')).as_str()) {
                let message = format!(
                    "is {asked}, and vLLM has no such page: it answers 404, and no pod becomes ready"
                );
                let hint = "ask for `/health`, unless a plug-in of vLLM adds the page";
                all.push(Advice::warning(place, "ProbePath", message, hint));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use crate::advice::tests::{finding_lines, service};

    #[test]
    fn a_probe_asks_for_a_page_that_vllm_has() {
        let with = |path: &str, more: &str| {
            let pod = format!(
                "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      {more}\n      readinessProbe: {{httpGet: \
                 {{path: {path}, port: 8000}}}}\n"
            );
            finding_lines(&service("a", &pod))
                .into_iter()
                .filter(|found| found.contains("httpGet.path"))
                .collect::<Vec<_>>()
        };
        let found = with("/healthy", "");
        assert!(
            found.len() == 1 && found[0].contains("is /healthy, and vLLM has no such page"),
            "{found:#?}"
        );
        let found = with("/v1/models", "args: [--api-key, k]");
        assert!(found.len() == 1 && found[0].contains("for which vLLM needs its API key"), "{found:#?}");
        for path in ["/health", "health", "/v1/models", "/ping?x=1"] {
            assert_eq!(with(path, ""), [""; 0], "{path}");
        }
        assert_eq!(with("/mine", "command: [my-server]"), [""; 0]);
    }
}
