//! Numbers of API servers with which vLLM does not start, or answers nobody.

use k8s_openapi::api::core::v1::{Container, EnvVar};
use longboat_api::{
    annotations::RUNTIME_ADAPTERS,
    engine::VLLM,
    switches,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec},
};

use super::{
    super::{Advice, variables},
    uses::Uses,
};

/// The variable from which the start scripts of presets with data parallel workers take the number.
pub(in super::super) const VARIABLE: &str = "VLLM_API_SERVER_COUNT";

/// A number of API servers, and where it is written.
struct Count<'a> {
    path: String,
    written: &'a str,
}

pub(super) fn check(
    path: &str,
    main: &Container,
    uses: &Uses<'_>,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
) -> Option<Advice> {
    let script = variables::words(main).find(|word| word.contains(VARIABLE));
    let of_flag = uses.last("--api-server-count").filter(|used| used.word.is_exact).and_then(|used| {
        Some(Count { path: used.word.path.clone(), written: used.texts().into_iter().next()? })
    });
    let of_variable = || {
        let text = variable(main, VARIABLE)?.value.as_deref().filter(|text| !text.contains('$'))?;
        Some(Count { path: format!("{path}.env[name={VARIABLE}].value"), written: text })
    };
    // The flag comes after what the script makes of the variable, and the last one counts.
    let count = of_flag.or_else(|| script.and_then(|_| of_variable()))?;
    let Count { path, written } = count;
    let number = written.parse::<i64>().ok();
    if number.is_none_or(|number| number < 1) {
        return Some(Advice::error(
            path,
            "NoApiServer",
            format!("is \"{written}\" as the number of vLLM's API servers: no pod becomes ready"),
            "write a whole number of at least 1".to_owned(),
        ));
    }
    let reason = loads_adapters(main, service, spec).filter(|_| number > Some(1))?;
    Some(Advice::error(
        path,
        "TooManyApiServers",
        format!(
            "makes vLLM start {written} API servers, which it refuses beside {reason}: it does not start"
        ),
        "write 1, or let pods have their adapters from the start".to_owned(),
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
    let has_adapters = spec.model.lora.as_ref().is_some_and(|lora| !lora.adapters.is_empty());
    let annotations = service.metadata.annotations.as_ref();
    let asked = switches::value(annotations, RUNTIME_ADAPTERS).ok().flatten() == Some(true);
    (asked && has_adapters).then_some("the annotation longboat.dev/runtime-adapters")
}

fn variable<'a>(main: &'a Container, name: &str) -> Option<&'a EnvVar> {
    main.env.iter().flatten().find(|variable| variable.name == name)
}
