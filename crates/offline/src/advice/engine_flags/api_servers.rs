//! Numbers of API servers with which vLLM does not start, or answers nobody.

use k8s_openapi::api::core::v1::Container;
use longboat_api::{
    annotations::RUNTIME_ADAPTERS,
    engine::VLLM,
    switches,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};

use super::uses::Uses;
use crate::{
    finding::Advice,
    pods::{variable, words},
};

/// The variable from which the start scripts of presets with data parallel workers take the number.
pub(in super::super) const VARIABLE: &str = "VLLM_API_SERVER_COUNT";

pub(super) fn check(
    path: &str,
    main: &Container,
    uses: &Uses<'_>,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
) -> Option<Advice> {
    let script = words(main).find(|word| word.contains(VARIABLE));
    let of_flag = uses
        .last("--api-server-count")
        .filter(|used| used.word.is_exact)
        .and_then(|used| Some((used.word.path.clone(), used.texts().into_iter().next()?)));
    let of_variable = || {
        let text = variable(main, VARIABLE)?.value.as_deref().filter(|text| !text.contains('$'))?;
        Some((format!("{path}.env[name={VARIABLE}].value"), text))
    };
    // The flag comes after what the script makes of the variable, and the last one counts.
    let (path, written) = of_flag.or_else(|| script.and_then(|_| of_variable()))?;
    let number = written.parse::<i64>().ok();
    if number.is_none_or(|number| number < 1) {
        return Some(Advice::error(
            path,
            "NoApiServer",
            format!("is \"{written}\" as the number of vLLM's API servers: no pod becomes ready"),
            "write a whole number of at least 1",
        ));
    }
    let reason = loads_adapters(main, service, spec).filter(|_| number > Some(1))?;
    Some(Advice::error(
        path,
        "TooManyApiServers",
        format!(
            "makes vLLM start {written} API servers, which it refuses beside {reason}: it does not start"
        ),
        "write 1, or let pods have their adapters from the start",
    ))
}

/// Returns what lets vLLM load adapters while it runs.
fn loads_adapters(
    main: &Container,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
) -> Option<&'static str> {
    let open = VLLM.lora.as_ref()?.runtime_variable?;
    let is_open = variable(main, open)
        .and_then(|open| open.value.as_deref())
        .is_some_and(|value| ["1", "true"].contains(&value.trim().to_ascii_lowercase().as_str()));
    if is_open {
        return Some(open);
    }
    let annotations = service.metadata.annotations.as_ref();
    let asked = switches::value(annotations, RUNTIME_ADAPTERS) == Some(true);
    (asked && !spec.adapters().is_empty()).then_some("the annotation longboat.dev/runtime-adapters")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{about, finding_lines};

    #[test]
    fn a_number_of_api_servers_that_vllm_cannot_have_is_an_error() {
        let group = |count: &str| {
            let pod = format!(
                "{{containers: [{{name: main, env: [{{name: VLLM_API_SERVER_COUNT, value: '{count}'}}]}}]}}"
            );
            about(&format!(
                "  model: {{uri: 'hf://a/b', name: m}}\n  parallelism: {{data: 4, dataLocal: 2}}\n  template: {pod}\n  worker: {{containers: []}}\n"
            ))
        };
        let variable = "error spec.template.containers[0].env[0].value: is";
        for count in ["0", "two"] {
            assert_eq!(
                group(count),
                [format!(
                    "{variable} {count:?} as the number of vLLM's API servers: no pod becomes ready (write a whole number of at least 1)"
                )]
            );
        }
        assert_eq!(group("2"), [""; 0]);
        let open = "env: [{name: VLLM_ALLOW_RUNTIME_LORA_UPDATING, value: 'True'}]";
        assert_eq!(
            finding_lines(&format!("args: ['--api-server-count=4']\n      {open}")),
            [
                "error spec.template.containers[0].args[0]: makes vLLM start 4 API servers, which it refuses beside \
         VLLM_ALLOW_RUNTIME_LORA_UPDATING: it does not start (write 1, or let pods have their adapters from the start)"
            ],
        );
        assert_eq!(finding_lines(&format!("args: ['--api-server-count=1']\n      {open}")), [""; 0]);
        assert_eq!(finding_lines("args: ['--api-server-count=4']"), [""; 0]);
        // No script reads the variable without data parallel workers.
        assert_eq!(
            finding_lines("env: [{name: VLLM_API_SERVER_COUNT, value: '4'}]"),
            [
                "warning spec.template.containers[0].env[0]: has no effect: vLLM 0.32.0 does not read VLLM_API_SERVER_COUNT (the start scripts of \
         presets with data parallel workers read it. Otherwise give vLLM the flag --api-server-count)"
            ],
        );
    }
}
