//! A limit for the rank of adapters that vLLM does not have.

use longboat_api::{
    engine::{Engine, VLLM},
    v1alpha2::LLMInferenceServiceSpec,
    vllm,
};

use crate::finding::Advice;

pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Option<Advice> {
    let lora = spec.model.lora.as_ref().filter(|lora| !lora.adapters.is_empty())?;
    let rank = lora.max_rank.filter(|_| Engine::of_spec(spec).name == VLLM.name)?;
    let flag = VLLM.lora.as_ref()?.max_rank;
    let (_, known) = vllm::flags::find(flag)?;
    let mut ranks = known.choices.iter().filter_map(|choice| choice.parse::<i32>().ok());
    if ranks.clone().any(|choice| choice == rank) {
        return None;
    }
    let hint = match ranks.find(|choice| *choice > rank) {
        Some(next) => format!("write {next}, with which adapters of rank {rank} fit"),
        None => "write one of these".to_owned(),
    };
    Some(Advice::warning(
        "spec.model.lora.maxRank",
        "UnknownRank",
        format!(
            "is {rank}, and {flag} of vLLM {} takes one of {}: no pod becomes ready",
            vllm::version(),
            known.choices.join(", ")
        ),
        hint,
    ))
}
